"""Conditions that some ranks meet and others do not.

The names are those that PyTorch, Lightning, Accelerate, Transformers, DeepSpeed, Horovod and timm use for ranks and for
the main process, and the usual variations of them.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from forensics.sources.program import Program, last, method, plain, text_of

_RANK = re.compile(
    r"(?:global_?|world_?|local_?|node_?|proc(?:ess)?_?|ddp_?|dist_?|my_?|dp_?|data_parallel_?|tp_?|pp_?|distributed_?)*"
    r"rank(?:_?id)?|(?:local_)?process_(?:index|idx)|gpu(?:_?id|_?idx)?",
    re.I,
)
_LOCAL = re.compile(r"local|node|gpu|tp|pp|dp|parallel", re.I)
_ASKS_RANK = re.compile(r"(?:get_)?(?:global_|world_|local_|node_|distributed_|dp_)?rank", re.I)
_MAIN = re.compile(
    r"(?:is_)?(?:local_|global_|world_)?(?:main|master|primary|lead|chief)_?(?:process|proc|rank|node|worker)?"
    r"|is_?(?:local_|global_|world_)?(?:rank_?(?:0|zero)|zero_?rank|global_zero|root|leader|main|master)|rank_?(?:0|zero)"
    r"|on_(?:main|master)_process|should_(?:save|log)",
    re.I,
)
# `main()` and `master` are words for many things; `is_main` and `main_process` are not.
_TOO_PLAIN = frozenset({"main", "master", "primary", "lead", "chief", "master_node", "mainworker", "main_worker"})


@dataclass(frozen=True, slots=True)
class RankTest:
    """A test of the rank. `side` names the ranks that it selects; `positive` says whether these take the body."""

    side: str
    positive: bool
    exact: bool  # one global rank only: `rank == 0`, `is_main_process()`


def rank_test(program: Program, test: ast.expr, depth: int = 0) -> RankTest | None:
    """How a condition tells ranks apart; None where it does not, or where nothing shows that it does."""
    if depth > 8:
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = rank_test(program, test.operand, depth + 1)
        return None if inner is None else RankTest(inner.side, not inner.positive, inner.exact)
    if isinstance(test, ast.BoolOp):
        found = [t for part in test.values if (t := rank_test(program, part, depth + 1)) is not None]
        return found[0] if found else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _comparison(program, test)
    if _is_rank(program, test):  # `if rank:` is for all but rank 0
        return RankTest("0", False, not _is_local(test))
    if (name := _main_name(test)) is not None:
        return RankTest("0", True, "local" not in name.lower())
    if (name := plain(test)) and (known := _known(program, name, test)) is not None:
        return rank_test(program, known, depth + 1)
    return None


def match_test(program: Program, node: ast.Match) -> RankTest | None:
    """How a match of one case and a rest tells ranks apart (`match get_rank(): case 0: ...`); None of any other one.

    `positive` is for the ranks of the first case.
    """
    patterns = [case.pattern for case in node.cases]
    others = all(isinstance(p, ast.MatchAs) and p.pattern is None for p in patterns[1:])
    if (
        not _is_rank(program, node.subject)
        or not others
        or len(patterns) > 2
        or not isinstance(patterns[0], ast.MatchValue)
    ):
        return None
    value = _number(patterns[0].value)
    side = str(value) if value is not None else ast.dump(patterns[0].value)
    return RankTest(side, True, not _is_local(node.subject))


def _known(program: Program, name: str, at: ast.expr) -> ast.expr | None:
    """The one condition that a name stands for: `is_zero = dist.get_rank() == 0`."""
    local = program.scope_of(at).values(name) if "." not in name else []
    values = local or [v for scope in program.scopes for v in scope.values(name)]
    tests = [v for v in values if isinstance(v, ast.Compare | ast.BoolOp | ast.UnaryOp)]
    return tests[0] if len(tests) == 1 and len(values) <= 2 else None


def _comparison(program: Program, test: ast.Compare) -> RankTest | None:
    left, op, right = test.left, test.ops[0], test.comparators[0]
    if not _is_rank(program, left):
        if not _is_rank(program, right) or not isinstance(op, ast.Eq | ast.NotEq):
            modulo = left.left if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod | ast.FloorDiv) else None
            if modulo is not None and _is_rank(program, modulo):
                return RankTest(ast.dump(left) + ast.dump(right), isinstance(op, ast.Eq), False)
            return None
        left, right = right, left
    exact = not _is_local(left)
    if isinstance(op, ast.Eq | ast.NotEq):
        value = _number(right)
        if value is not None and value < 0:  # -1 is the rank of a run that is not distributed
            return None
        if isinstance(right, ast.Constant) and right.value is None:
            return None
        return RankTest(str(value) if value is not None else ast.dump(right), isinstance(op, ast.Eq), exact)
    if isinstance(op, ast.In | ast.NotIn):
        numbers = {_number(e) for e in right.elts} if isinstance(right, ast.List | ast.Tuple | ast.Set) else set()
        if numbers and numbers <= {-1, 0}:
            return RankTest("0", isinstance(op, ast.In), exact)
        return RankTest(ast.dump(right), isinstance(op, ast.In), False)
    value = _number(right)
    if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        if isinstance(op, ast.Gt | ast.LtE) and value == 0:
            return RankTest("0", isinstance(op, ast.LtE), exact)
        if isinstance(op, ast.Lt | ast.GtE) and value == 1:
            return RankTest("0", isinstance(op, ast.Lt), exact)
        if value is not None and value <= 0:  # `rank >= 0`, `rank > -1`: is it distributed?
            return None
        return RankTest(ast.dump(right), isinstance(op, ast.Lt | ast.LtE), False)
    return None


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isdecimal():
        return int(node.value)
    return None


def is_rank(program: Program, node: ast.expr) -> bool:
    """Whether an expression is this process's rank (global, local, or in a group)."""
    return _is_rank(program, node)


def _is_rank(program: Program, node: ast.expr) -> bool:
    if isinstance(node, ast.Name | ast.Attribute):
        return _RANK.fullmatch(last(plain(node) or getattr(node, "attr", ""))) is not None
    if isinstance(node, ast.Call):
        name = method(node)
        if name in ("int", "str") and len(node.args) == 1:
            return _is_rank(program, node.args[0])
        if name in ("get", "getenv") and node.args:
            return _is_rank_variable(text_of(node.args[0]))
        if name == "getattr" and len(node.args) >= 2:
            return _is_rank_variable(text_of(node.args[1]))
        return _ASKS_RANK.fullmatch(name) is not None
    if isinstance(node, ast.Subscript):
        return _is_rank_variable(text_of(node.slice))
    return False


def _is_rank_variable(name: str | None) -> bool:
    return name is not None and (_RANK.fullmatch(name) is not None or name in ("SLURM_PROCID", "SLURM_LOCALID"))


def _is_local(node: ast.expr) -> bool:
    words = plain(node) if isinstance(node, ast.Name | ast.Attribute) else ast.unparse(node)
    return _LOCAL.search(words) is not None


def _main_name(test: ast.expr) -> str | None:
    name = method(test) if isinstance(test, ast.Call) else getattr(test, "attr", None) or getattr(test, "id", None)
    if not isinstance(name, str) or name in _TOO_PLAIN or _MAIN.fullmatch(name) is None:
        return None
    return name
