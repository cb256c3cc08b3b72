"""A parsed program and the questions that checks ask of it: names behind imports, scopes, loops, order of calls.

All walks are iterative: how deeply a program nests is not ours to trust.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from forensics.model import Evidence

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SHARED = ("ctx", "op", "ops")


@dataclass(frozen=True, eq=False)
class Scope:
    """The body of a function, or of the program itself, without the functions and classes defined in it."""

    node: Function | ast.Module
    nodes: tuple[ast.AST, ...]  # in the order in which they stand
    owner: ast.ClassDef | None = None  # the class whose method it is

    @property
    def name(self) -> str:
        return self.node.name if isinstance(self.node, FUNCTIONS) else ""

    @property
    def arguments(self) -> list[str]:
        """The arguments of a function that have a name of their own, in order; those by position alone first."""
        if not isinstance(self.node, FUNCTIONS):
            return []
        return [a.arg for a in (*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs)]

    def takes(self, name: str) -> bool:
        """Whether a name is an argument of the function."""
        return name in self.arguments

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """Calls in the order in which they are made: the inner one of `f(g())` first."""
        found = [n for n in self.nodes if isinstance(n, ast.Call)]
        return tuple(sorted(found, key=_end))

    @cached_property
    def bound(self) -> tuple[tuple[str, ast.expr, ast.stmt], ...]:
        """(name, value, statement) of every assignment to one name or attribute: `model`, `self.model`."""
        found: list[tuple[str, ast.expr, ast.stmt]] = []
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                found += [(plain(target), node.value, node) for target in node.targets if plain(target)]
            elif isinstance(node, ast.AnnAssign) and node.value is not None and plain(node.target):
                found.append((plain(node.target), node.value, node))
        return tuple(found)

    @cached_property
    def _values(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for name, value, _ in self.bound:
            found.setdefault(name, []).append(value)
        return found

    def values(self, name: str) -> list[ast.expr]:
        """What is assigned to a name in this scope, in the order of the text."""
        return self._values.get(name, [])


def _end(node: ast.expr) -> tuple[int, int]:
    return (node.end_lineno or node.lineno, node.end_col_offset or 0)


def plain(node: ast.AST) -> str:
    """`a.b.c` of a name or attribute chain, as written; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes below a node, in the order of the text, without operators and contexts, which are shared by all."""
    found: list[ast.AST] = []
    for name in node._fields:
        if name in _SHARED:
            continue
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST)]
    return found


def walk(node: ast.AST | Sequence[ast.AST], into: bool = True) -> Iterator[ast.AST]:
    """Every node of `node` (or of several), in the order of the text; `into`: also what functions and classes hold."""
    stack = [node] if isinstance(node, ast.AST) else list(reversed(node))
    while stack:
        current = stack.pop()
        yield current
        if into or not isinstance(current, (*FUNCTIONS, ast.ClassDef)):
            stack.extend(reversed(children(current)))


def calls_in(node: ast.AST | Sequence[ast.AST]) -> list[ast.Call]:
    """The calls below a node (a loop, a branch) that belong to its own scope, in the order in which they are made."""
    return sorted((n for n in walk(node, into=False) if isinstance(n, ast.Call)), key=_end)


def method(call: ast.Call) -> str:
    """The last name of what is called: `step` for `self.optimizer.step()`, `barrier` for `barrier()`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def receiver(call: ast.Call) -> str:
    """`self.optimizer` of `self.optimizer.step()`; empty for a function or a computed object."""
    return plain(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """An argument given by position or by name."""
    if (given := keyword(call, name)) is not None:
        return given
    before = call.args[: position + 1]
    if len(before) <= position or any(isinstance(a, ast.Starred) for a in before):
        return None
    return call.args[position]


def open_ended(call: ast.Call) -> bool:
    """Whether arguments come from elsewhere (`*args`, `**kwargs`), so that one that is not seen may be given."""
    return any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def text_of(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def names_in(node: ast.AST | None) -> set[str]:
    """Names and attributes that stand in an expression, as single words."""
    if node is None:
        return set()
    found = set()
    for n in walk(node):
        if isinstance(n, ast.Name):
            found.add(n.id)
        elif isinstance(n, ast.Attribute):
            found.add(n.attr)
    return found


class Program:
    """One parsed file (or the code cells of a notebook).

    path: what reports show; lines: the text; starts: byte offset of each line, or None where the text is no file.
    """

    def __init__(
        self, path: str, lines: Sequence[str], tree: ast.Module, starts: Sequence[int] | None = None, module: str = ""
    ) -> None:
        self.path = path
        self.lines = tuple(lines)
        self.tree = tree
        self.starts = starts
        self.module = module  # "utils.dist" for utils/dist.py: how others import it
        self.nodes, self.parents, self.scopes, self.depth = _survey(tree)
        self._scope_of = {id(scope.node): scope for scope in self.scopes}
        self.imports = _imports(self.nodes)
        self.classes = {n.name: n for n in self.nodes if isinstance(n, ast.ClassDef)}

    @cached_property
    def functions(self) -> dict[str, list[Scope]]:
        """Functions and methods by their last name."""
        found: dict[str, list[Scope]] = {}
        for scope in self.scopes:
            if scope.name:
                found.setdefault(scope.name, []).append(scope)
        return found

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, keyword and imported name in the program."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.keyword) and node.arg:
                found.add(node.arg)
            elif isinstance(node, ast.alias):
                found.update(node.name.split("."))
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                found.add(node.name)
        return frozenset(found)

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        return tuple(n for n in self.nodes if isinstance(n, ast.Call))

    @cached_property
    def texts(self) -> frozenset[str]:
        """Every string constant of moderate length."""
        return frozenset(
            n.value
            for n in self.nodes
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and len(n.value) < 200
        )

    def uses(self, library: str) -> bool:
        """Whether it imports a library: `uses("accelerate")`."""
        return any(name == library or name.startswith(library + ".") for name in self.imports.values())

    def dotted(self, node: ast.AST) -> str:
        """The full name behind imports: `torch.nn.functional.cross_entropy` for `F.cross_entropy`.

        A call in the chain is written `()`: `scaler.scale().backward`. Empty where it begins with no name.
        """
        parts: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append("." + node.attr)
                node = node.value
            elif isinstance(node, ast.Call):
                parts.append("()")
                node = node.func
            elif isinstance(node, ast.Subscript):
                parts.append("[]")
                node = node.value
            elif isinstance(node, ast.Name):
                return self.imports.get(node.id, node.id) + "".join(reversed(parts))
            else:
                return ""

    def called(self, call: ast.Call) -> str:
        return self.dotted(call.func)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What stands around a node, the nearest first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def scope_of(self, node: ast.AST) -> Scope:
        for parent in self.above(node):
            if isinstance(parent, FUNCTIONS):
                return self._scope_of[id(parent)]
        return self.scopes[0]

    def loops_around(self, node: ast.AST) -> list[Loop]:
        """Loops of the same scope around a node, the innermost first."""
        found: list[Loop] = []
        for parent in self.above(node):
            if isinstance(parent, FUNCTIONS):
                break
            if isinstance(parent, LOOPS):
                found.append(parent)
        return found

    def statement(self, node: ast.AST) -> ast.stmt | None:
        if isinstance(node, ast.stmt):
            return node
        return next((parent for parent in self.above(node) if isinstance(parent, ast.stmt)), None)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements in which one stands."""
        parent = self.parents.get(statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and any(s is statement for s in block):
                return block
        return [statement]

    def function_at(self, line: int) -> str:
        """The name of the innermost function that holds a line; empty for the program's own level."""
        best, name = 0, ""
        for scope in self.scopes[1:]:
            node = scope.node
            assert isinstance(node, FUNCTIONS)
            if best < node.lineno <= line <= (node.end_lineno or node.lineno):
                best, name = node.lineno, node.name
        return name

    def bases(self, node: ast.ClassDef) -> set[str]:
        """Last names of a class's bases, those of bases in the same program included."""
        found: set[str] = set()
        todo = [node]
        while todo and len(found) < 100:
            for base in todo.pop().bases:
                name = self.dotted(base).removesuffix("[]").rsplit(".", 1)[-1]
                if name and name not in found:
                    found.add(name)
                    if name in self.classes:
                        todo.append(self.classes[name])
        return found

    def evidence(self, node: ast.AST) -> Evidence:
        """The line on which a node begins."""
        line = int(getattr(node, "lineno", 1))
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        offset = self.starts[line - 1] if self.starts is not None and 0 < line <= len(self.starts) else None
        return Evidence(self.path, line, offset, text[:300])


def _survey(tree: ast.Module) -> tuple[list[ast.AST], dict[ast.AST, ast.AST], tuple[Scope, ...], int]:
    """(all nodes, parent of each, scopes, depth of the tree), in one pass.

    The body of a class is in no scope: what stands there are its methods, which have their own.
    """
    nodes: list[ast.AST] = []
    parents: dict[ast.AST, ast.AST] = {}
    bodies: list[list[ast.AST]] = [[]]
    heads: list[Function | ast.Module] = [tree]
    deepest = 0
    stack: list[tuple[ast.AST, int, int]] = [(tree, 0, 0)]  # node, depth, scope (-1: none)
    while stack:
        node, depth, scope = stack.pop()
        nodes.append(node)
        deepest = max(deepest, depth)
        if scope >= 0:
            bodies[scope].append(node)
        inner: dict[int, int] = {}
        if isinstance(node, FUNCTIONS):
            heads.append(node)
            bodies.append([])
            inner = {id(statement): len(heads) - 1 for statement in node.body}
            scope = -1
        elif isinstance(node, ast.ClassDef):
            scope = -1
        below = children(node)
        for child in below:
            parents[child] = node
        stack += [(child, depth + 1, inner.get(id(child), scope)) for child in reversed(below)]
    scopes = []
    for head, body in zip(heads, bodies, strict=True):
        above = parents.get(head)
        scopes.append(Scope(head, tuple(body), above if isinstance(above, ast.ClassDef) else None))
    return nodes, parents, tuple(scopes), deepest


def _imports(nodes: Iterable[ast.AST]) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    found[alias.asname] = alias.name
                else:
                    top = alias.name.partition(".")[0]
                    found.setdefault(top, top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}" if node.module else alias.name
    return found


def last(dotted: str) -> str:
    return dotted.rsplit(".", 1)[-1]


def any_name(program: Program, names: Iterable[str]) -> bool:
    return any(name in program.words for name in names)
