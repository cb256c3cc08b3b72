"""What a loss or a model is: which loss a call computes, and what the last operation of a model's output is."""

from __future__ import annotations

import ast

from forensics.sources.program import FUNCTIONS, Program, argument, last, method, plain, receiver
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


def loss_of(program: Program, call: ast.Call) -> str | None:
    """The loss that a call computes, as the name in torch.nn.functional; None for anything else."""
    full = program.called(call)
    if last(full) in _FUNCTIONAL and (full.startswith(("torch.nn.functional", "F.", "nn.functional"))):
        return last(full)
    name = plain(call.func)
    if isinstance(call.func, ast.Call):  # nn.CrossEntropyLoss()(x, y)
        return _loss_class(program, call.func)
    if not name or not call.args:
        return None
    values = _bound(program, call, name)
    kinds = {_loss_class(program, v) for v in values if isinstance(v, ast.Call)}
    return kinds.pop() if len(kinds) == 1 and len(values) == sum(isinstance(v, ast.Call) for v in values) else None


def _loss_class(program: Program, value: ast.expr) -> str | None:
    while isinstance(value, ast.Call) and method(value) in ("cuda", "to") and isinstance(value.func, ast.Attribute):
        value = value.func.value
    if not isinstance(value, ast.Call):
        return None
    full = program.called(value)
    return LOSSES.get(last(full)) if full.startswith(("torch.nn", "nn.")) else None


def _bound(program: Program, at: ast.AST, name: str) -> list[ast.expr]:
    """What a name can stand for: its values in this scope, else (attributes, globals) those of the program."""
    own = program.scope_of(at)
    if "." not in name:
        if local := own.values(name):
            return local
        arguments = own.node.args if isinstance(own.node, FUNCTIONS) else None
        if arguments is not None and any(a.arg == name for a in (*arguments.args, *arguments.kwonlyargs)):
            return []
        return program.scopes[0].values(name)
    return [v for scope in program.scopes if scope.owner is own.owner for v in scope.values(name)]


def prediction(call: ast.Call) -> ast.expr | None:
    """The first argument of a loss."""
    return argument(call, 0, "input")


def output_of(project: Project, program: Program, value: ast.expr, depth: int = 0) -> tuple[str, ast.AST] | None:
    """(last operation, where it stands) of a tensor: softmax, log_softmax, sigmoid or linear; None if not known."""
    if depth > 12:
        return None
    if isinstance(value, ast.Name):
        found = _before(program, value)
        return output_of(project, program, found, depth + 1) if found is not None else None
    if not isinstance(value, ast.Call):
        return None
    name = method(value)
    full = program.called(value)
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


def model_output(project: Project, program: Program, func: ast.expr, depth: int = 0) -> tuple[str, ast.AST] | None:
    """The last operation of a model (or layer) that is called by `func`."""
    if depth > 12:
        return None
    name = plain(func)
    if not name:
        return None
    values = [v for v in _bound(program, func, name) if not (isinstance(v, ast.Constant) and v.value is None)]
    kinds = [_module(project, program, v, depth + 1) for v in values]
    known = {k[0] for k in kinds if k is not None}
    return kinds[0] if kinds and None not in kinds and len(known) == 1 else None


def _module(project: Project, program: Program, value: ast.expr, depth: int) -> tuple[str, ast.AST] | None:
    """The last operation of what an expression builds: a layer, a Sequential, a model of these programs, a wrapper."""
    if depth > 12:
        return None
    if isinstance(value, ast.Name | ast.Attribute):
        values = _bound(program, value, plain(value))
        values = [v for v in values if not _within(v, value)]
        return _module(project, program, values[0], depth + 1) if len(values) == 1 else None
    if not isinstance(value, ast.Call):
        return None
    full, name = program.called(value), method(value)
    if name in _MOVES and isinstance(value.func, ast.Attribute):
        return _module(project, program, value.func.value, depth + 1)
    if name in _WRAPPERS and value.args:
        return _module(project, program, value.args[0], depth + 1)
    if name in _ENDS and full.startswith(("torch.nn", "nn.")):
        return (_ENDS[name], value)
    if name == "Sequential" and value.args and not isinstance(value.args[-1], ast.Starred):
        return _module(project, program, value.args[-1], depth + 1)
    return _class_output(project, program, name, depth) if isinstance(value.func, ast.Name) else None


def _class_output(project: Project, program: Program, name: str, depth: int) -> tuple[str, ast.AST] | None:
    homes = [program] if name in program.classes else [p for p in project.programs if name in p.classes]
    if len(homes) != 1:
        return None
    home = homes[0]
    node = home.classes[name]
    forwards = [s for s in home.functions.get("forward", []) if s.owner is node]
    if len(forwards) != 1:
        return None
    returns = [n.value for n in forwards[0].nodes if isinstance(n, ast.Return) and n.value is not None]
    kinds = [output_of(project, home, r, depth + 1) for r in returns]
    known = {k[0] for k in kinds if k is not None}
    return kinds[0] if kinds and None not in kinds and len(known) == 1 else None


def home_of(project: Project, node: ast.AST) -> Program | None:
    """The program in which a node stands."""
    return next((p for p in project.programs if node in p.parents), None)
