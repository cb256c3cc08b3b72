"""What a loss or a model is: which loss a call computes, and what the last operation of a model's output is."""

from __future__ import annotations

import ast

from forensics.sources.program import (
    FUNCTIONS,
    Program,
    Scope,
    argument,
    keyword,
    last,
    method,
    open_ended,
    plain,
    receiver,
)
from forensics.sources.project import Project

# (class in torch.nn, function in torch.nn.functional) of the losses that expect a certain kind of input.
LOSSES = {
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}
_FUNCTIONAL = frozenset(LOSSES.values())
_SHAPES = frozenset(
    "squeeze view reshape flatten float permute transpose contiguous unsqueeze to double half cpu clone mean".split()
)
_BOUNDS = frozenset("clamp clamp_ clamp_min clamp_max clip clip_".split())
_WRAPPERS = frozenset(
    "DataParallel DistributedDataParallel DDP FullyShardedDataParallel FSDP compile convert_sync_batchnorm"
    " prepare".split()
)
_MOVES = frozenset("to cuda cpu half float bfloat16 double train eval requires_grad_".split())
_ENDS = {
    "softmax": "softmax", "Softmax": "softmax", "Softmax2d": "softmax",
    "log_softmax": "log_softmax", "LogSoftmax": "log_softmax", "logsigmoid": "log_softmax",
    "sigmoid": "sigmoid", "Sigmoid": "sigmoid", "sigmoid_": "sigmoid",
    "Linear": "linear", "linear": "linear", "LazyLinear": "linear", "Conv2d": "linear", "Conv1d": "linear",
}  # fmt: skip


_DEEPEST = 16  # names, calls and wrappers that are followed one after the other


def loss_of(project: Project, program: Program, call: ast.Call) -> str | None:
    """The loss that a call computes, as the name in torch.nn.functional; None for anything else."""
    full = program.called(call)
    if last(full) in _FUNCTIONAL and (full.startswith(("torch.nn.functional", "F.", "nn.functional"))):
        return last(full)
    name = plain(call.func)
    if isinstance(call.func, ast.Call):  # nn.CrossEntropyLoss()(x, y)
        return _loss_class(program, call.func)
    if not name or not call.args:
        return None
    kinds = {_loss_behind(project, home, value, 0) for home, value in _bound(project, program, call, name)}
    return kinds.pop() if len(kinds) == 1 else None


def _loss_behind(project: Project, program: Program, value: ast.expr, depth: int) -> str | None:
    """The loss that an expression stands for, through names and arguments."""
    if isinstance(value, ast.Name | ast.Attribute) and depth < _DEEPEST:
        behind = _bound(project, program, value, plain(value))
        kinds = {_loss_behind(project, home, v, depth + 1) for home, v in behind}
        return kinds.pop() if len(kinds) == 1 else None
    return _loss_class(program, value)


def _loss_class(program: Program, value: ast.expr) -> str | None:
    while isinstance(value, ast.Call) and method(value) in ("cuda", "to") and isinstance(value.func, ast.Attribute):
        value = value.func.value
    if not isinstance(value, ast.Call):
        return None
    full = program.called(value)
    return LOSSES.get(last(full)) if full.startswith(("torch.nn", "nn.")) else None


def _bound(project: Project, program: Program, at: ast.expr, name: str) -> list[tuple[Program, ast.expr]]:
    """What a name can stand for, with the program in which each stands.

    Its values in this scope up to here; of an argument, what all calls give; else (attributes, globals) those of the
    program.
    """
    own = program.scope_of(at)
    if "." in name:
        return [(program, v) for scope in program.scopes if scope.owner is own.owner for v in scope.values(name)]
    local = [(v, s.lineno) for n, v, s in own.bound if n == name and not _within(v, at)]
    if local:
        before = [v for v, line in local if line <= at.lineno]
        return [(program, v) for v in before or [v for v, _ in local]]
    if own.takes(name):
        return given(project, program, own, name)
    return [(program, v) for v in program.scopes[0].values(name) if not _within(v, at)]


def given(project: Project, program: Program, scope: Scope, name: str) -> list[tuple[Program, ast.expr]]:
    """What all calls of a function give for an argument; nothing where one of them does not say.

    Hooks of a trainer are called by its library, with the model that the trainer was made with.
    """
    assert isinstance(scope.node, FUNCTIONS)
    bound = scope.owner is not None and not any(last(plain(d)) == "staticmethod" for d in scope.node.decorator_list)
    position = scope.arguments.index(name) - bound
    calls = project.callers.get(id(scope.node), [])
    if not calls and scope.owner is not None and name == "model":
        calls, position = _trainers(project, program, scope.owner), 0
    found = []
    for home, call in calls:
        value = None if open_ended(call) and keyword(call, name) is None else argument(call, position, name)
        if value is None:
            return []
        found.append((home, value))
    return found


def _trainers(project: Project, program: Program, owner: ast.ClassDef) -> list[tuple[Program, ast.Call]]:
    """Calls that make a trainer of this class, which derives from one of transformers or trl: `Trainer(model, ...)`."""
    if not any(base.endswith("Trainer") for base in program.bases(owner)):
        return []
    return [(p, c) for p in project.programs for c in p.calls if method(c) == owner.name]


def prediction(call: ast.Call) -> ast.expr | None:
    """The first argument of a loss."""
    return argument(call, 0, "input")


def output_of(project: Project, program: Program, value: ast.expr, depth: int = 0) -> tuple[str, ast.AST] | None:
    """(last operation, where it stands) of a tensor: softmax, log_softmax, sigmoid or linear; None if not known."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, ast.Name):
        found = _before(program, value)
        if found is not None:
            return output_of(project, program, found, depth + 1)
        unpacked = _unpacked(program, value)
        return _held(project, program, *unpacked, depth + 1) if unpacked is not None else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return _held(project, program, value.value, value.slice.value, depth + 1)
    if isinstance(value, ast.Attribute):
        return _held(project, program, value.value, value.attr, depth + 1)
    if not isinstance(value, ast.Call):
        return None
    name = method(value)
    full = program.called(value)
    if name == "get" and isinstance(value.func, ast.Attribute) and value.args:
        key = value.args[0]
        return (
            _held(project, program, value.func.value, key.value, depth + 1) if isinstance(key, ast.Constant) else None
        )
    if name in ("softmax", "log_softmax", "sigmoid") and (full.startswith("torch") or _is_method(value)):
        return (_ENDS[name], value)
    if name in _SHAPES or name in _BOUNDS:
        # `torch.squeeze(x, -1)`, but not `torch.sigmoid(x).squeeze(-1)`, which begins with the same word.
        function = full.startswith("torch.") and bool(plain(value.func))
        inner = argument(value, 0, "input") if function else None
        inner = inner if inner is not None else value.func.value if isinstance(value.func, ast.Attribute) else None
        kept = output_of(project, program, inner, depth + 1) if inner is not None else None
        # Bounds leave probabilities what they are; of logits they may make some.
        return None if name in _BOUNDS and kept is not None and kept[0] == "linear" else kept
    if isinstance(value.func, ast.Attribute | ast.Name):
        return model_output(project, program, value.func, depth + 1)
    return None


def _is_method(call: ast.Call) -> bool:
    """Whether a call is one of a tensor's methods, and not of a layer that the class calls by that name."""
    if not isinstance(call.func, ast.Attribute):
        return False
    return isinstance(call.func.value, ast.Call | ast.Subscript | ast.BinOp) or receiver(call) not in ("", "self")


def _before(program: Program, name: ast.Name) -> ast.expr | None:
    """What a local name was bound to last before it is read; None where that is not plain to see."""
    scope = program.scope_of(name)
    bound = [(v, s) for n, v, s in scope.bound if n == name.id and s.lineno <= name.lineno and not _within(v, name)]
    if not bound:
        return None
    value, statement = max(bound, key=lambda pair: pair[1].lineno)
    for node in scope.nodes:  # unpacked, counted or bound by a loop since: something else
        if (
            isinstance(node, ast.Tuple | ast.List)
            and isinstance(node.ctx, ast.Store)
            and any(plain(e) == name.id for e in node.elts)
            and statement.lineno <= node.lineno <= name.lineno
        ):
            return None
        if isinstance(node, ast.AugAssign) and plain(node.target) == name.id:
            return None
    branch = [p for p in program.above(statement) if isinstance(p, ast.If)]
    return value if all(p in set(program.above(name)) for p in branch) else None


def _within(outer: ast.expr, inner: ast.AST) -> bool:
    return any(n is inner for n in ast.walk(outer))


def _unpacked(program: Program, name: ast.Name) -> tuple[ast.expr, int] | None:
    """(what is unpacked, position) of a local name that is bound by one assignment: `logits, _ = model(x)`."""
    targets = [
        (node.value, next(i for i, e in enumerate(target.elts) if plain(e) == name.id))
        for node in program.scope_of(name).nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Tuple | ast.List)
        and any(plain(e) == name.id for e in target.elts)
        and not any(isinstance(e, ast.Starred) for e in target.elts)
    ]
    return targets[0] if len(targets) == 1 and not program.scope_of(name).values(name.id) else None


def _held(project: Project, program: Program, holder: ast.expr, key: object, depth: int) -> tuple[str, ast.AST] | None:
    """The last operation of what a dict, a tuple or an object holds: `out["logits"]`, `out.logits`, `out[0]`."""
    if depth > _DEEPEST:
        return None
    if isinstance(holder, ast.Name):
        found = _before(program, holder)
        return _held(project, program, found, key, depth + 1) if found is not None else None
    if isinstance(holder, ast.Dict):
        held = [
            v for k, v in zip(holder.keys, holder.values, strict=True) if isinstance(k, ast.Constant) and k.value == key
        ]
        return output_of(project, program, held[0], depth + 1) if len(held) == 1 else None
    if isinstance(holder, ast.Tuple | ast.List):
        if not isinstance(key, int) or any(isinstance(e, ast.Starred) for e in holder.elts):
            return None
        if not -len(holder.elts) <= key < len(holder.elts):
            return None
        return output_of(project, program, holder.elts[key], depth + 1)
    if not isinstance(holder, ast.Call):
        return None
    if (
        isinstance(key, str) and (given := keyword(holder, key)) is not None
    ):  # dict(logits=...), ModelOutput(logits=...)
        return output_of(project, program, given, depth + 1)
    forwards = _forwards(project, program, holder.func, depth + 1)
    return _agreed([_held(project, home, value, key, depth + 1) for home, value in forwards])


def _agreed(kinds: list[tuple[str, ast.AST] | None]) -> tuple[str, ast.AST] | None:
    """The one operation that all of them have."""
    known = {k[0] for k in kinds if k is not None}
    return kinds[0] if kinds and None not in kinds and len(known) == 1 else None


def model_output(project: Project, program: Program, func: ast.expr, depth: int = 0) -> tuple[str, ast.AST] | None:
    """The last operation of a model (or layer) that is called by `func`."""
    if depth > _DEEPEST:
        return None
    if plain(func) in _OWN:
        return _agreed([output_of(project, home, v, depth + 1) for home, v in _forwards(project, program, func, depth)])
    return _agreed([_module(project, home, v, depth + 1) for home, v in _stands_for(project, program, func)])


_OWN = ("self", "self.forward")  # a module that calls itself, as Lightning's do


def _stands_for(project: Project, program: Program, func: ast.expr) -> list[tuple[Program, ast.expr]]:
    """What makes the module that is called by a name; `model.forward` and `model.module` are `model`."""
    while isinstance(func, ast.Attribute) and func.attr in ("forward", "module"):
        func = func.value
    name = plain(func)
    found = _bound(project, program, func, name) if name else []
    return [(home, v) for home, v in found if not (isinstance(v, ast.Constant) and v.value is None)]


def _forwards(project: Project, program: Program, func: ast.expr, depth: int) -> list[tuple[Program, ast.expr]]:
    """What the forward() of the model that is called by `func` returns, if all of that is in these programs."""
    if plain(func) in _OWN:
        owner = program.scope_of(func).owner
        return _returned(project, program, owner.name) if owner is not None else []
    made = [_class_of(project, home, v, depth + 1) for home, v in _stands_for(project, program, func)]
    names = {(id(c[0]), c[1]) for c in made if c is not None}
    if None in made or len(names) != 1 or made[0] is None:
        return []
    return _returned(project, *made[0])


def _inner(value: ast.Call) -> ast.expr | None:
    """The module that a call moves or wraps; None of any other call."""
    name = method(value)
    if name in _MOVES and isinstance(value.func, ast.Attribute):
        return value.func.value
    return value.args[0] if name in _WRAPPERS and value.args else None


def _class_of(project: Project, program: Program, value: ast.expr, depth: int) -> tuple[Program, str] | None:
    """(program, name) of the class of these programs that an expression makes an object of."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, ast.Name | ast.Attribute):
        found = [_class_of(project, home, v, depth + 1) for home, v in _stands_for(project, program, value)]
        return found[0] if found and len({f and (id(f[0]), f[1]) for f in found}) == 1 else None
    if not isinstance(value, ast.Call):
        return None
    if (inner := _inner(value)) is not None:
        return _class_of(project, program, inner, depth + 1)
    return (program, method(value)) if isinstance(value.func, ast.Name) else None


def _module(project: Project, program: Program, value: ast.expr, depth: int) -> tuple[str, ast.AST] | None:
    """The last operation of what an expression builds: a layer, a Sequential, a model of these programs, a wrapper."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, ast.Name | ast.Attribute):
        return _agreed([_module(project, home, v, depth + 1) for home, v in _stands_for(project, program, value)])
    if not isinstance(value, ast.Call):
        return None
    full, name = program.called(value), method(value)
    if (inner := _inner(value)) is not None:
        return _module(project, program, inner, depth + 1)
    if name in _ENDS and full.startswith(("torch.nn", "nn.")):
        return (_ENDS[name], value)
    if name == "Sequential" and value.args:
        end = _last_layer(program, value.args[-1])
        return _module(project, program, end, depth + 1) if end is not None else None
    if not isinstance(value.func, ast.Name):
        return None
    returned = _returned(project, program, name)
    return _agreed([output_of(project, home, v, depth + 1) for home, v in returned])


def _last_layer(program: Program, given: ast.expr) -> ast.expr | None:
    """The last layer of a Sequential, by its last argument: a layer, an OrderedDict of pairs, a list that is spread."""
    if isinstance(given, ast.Call) and last(program.called(given)) == "OrderedDict" and given.args:
        pairs = given.args[0]
        end = pairs.elts[-1] if isinstance(pairs, ast.List | ast.Tuple) and pairs.elts else None
        return end.elts[1] if isinstance(end, ast.Tuple) and len(end.elts) == 2 else None
    if isinstance(given, ast.Starred):
        layers = given.value
        if isinstance(layers, ast.Name):
            scope = program.scope_of(layers)
            changed = any(receiver(c) == layers.id and method(c) in _CHANGES for c in scope.calls)
            found = None if changed else _before(program, layers)
            layers = found if found is not None else layers
        return layers.elts[-1] if isinstance(layers, ast.List | ast.Tuple) and layers.elts else None
    return given


_CHANGES = frozenset("append extend insert pop".split())  # of a list, which is then not what it was bound to


def _returned(project: Project, program: Program, name: str) -> list[tuple[Program, ast.expr]]:
    """What forward() of a class returns, each with its program; nothing where the class is not known."""
    homes = [program] if name in program.classes else [p for p in project.programs if name in p.classes]
    if len(homes) != 1:
        return []
    home = homes[0]
    node = home.classes[name]
    forwards = [s for s in home.functions.get("forward", []) if s.owner is node]
    if len(forwards) != 1:
        return []
    return [(home, n.value) for n in forwards[0].nodes if isinstance(n, ast.Return) and n.value is not None]


def home_of(project: Project, node: ast.AST) -> Program | None:
    """The program in which a node stands."""
    return next((p for p in project.programs if node in p.parents), None)
