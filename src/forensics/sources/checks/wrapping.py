"""Devices, and the order in which a model is moved, wrapped and given to its optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from forensics.sources.hits import Hit, hit
from forensics.sources.program import (
    Program,
    Scope,
    is_false,
    is_true,
    keyword,
    last,
    method,
    names_in,
    open_ended,
    plain,
    receiver,
    text_of,
    walk,
)
from forensics.sources.project import Project
from forensics.sources.ranks import is_rank

_DDP = ("DistributedDataParallel", "DDP")


def _is_ddp(program: Program, call: ast.Call) -> bool:
    full = program.called(call)
    return (last(full) in _DDP and "parallel" in full) or full in _DDP


def device_by_global_rank(program: Program, project: Project) -> Iterator[Hit]:
    """set_device, .to or cuda: by the global rank, which numbers GPUs rightly on the first host only.

    Silent where the number is taken modulo the number of GPUs, where a program is for one host (it spawns its own
    ranks), and where the name is bound to the local rank.
    """
    if {"spawn", "mp"} & program.words and not {"LOCAL_RANK", "local_rank"} & (program.words | program.texts):
        return
    for call in program.calls:
        name = method(call)
        full = program.called(call)
        if full in ("torch.cuda.set_device", "torch.npu.set_device", "torch.xpu.set_device") and call.args:
            given: ast.expr | None = call.args[0]
        elif full == "torch.device" and len(call.args) == 2 and text_of(call.args[0]) == "cuda":
            given = call.args[1]
        elif full == "torch.device" and call.args and isinstance(call.args[0], ast.JoinedStr):
            given = _formatted(call.args[0])
        else:
            given = None
        if given is not None and _is_global(program, given):
            note = f"{name}() gets the global rank; on the second host there is no such GPU. Use LOCAL_RANK."
            yield hit("device_by_global_rank", program, call, note, weight=0.85)


def _formatted(text: ast.JoinedStr) -> ast.expr | None:
    """x of f"cuda:{x}"."""
    parts = text.values
    if len(parts) == 2 and text_of(parts[0]) == "cuda:" and isinstance(parts[1], ast.FormattedValue):
        return parts[1].value
    return None


def _is_global(program: Program, given: ast.expr) -> bool:
    if not is_rank(program, given):
        return False
    if isinstance(given, ast.Name | ast.Attribute):
        name = plain(given)
        if "local" in name.lower() or "device" in name.lower():
            return False
        values = [v for scope in program.scopes for n, v, _ in scope.bound if n == name or n == last(name)]
        return bool(values) and all(_asks_global(program, v) for v in values)
    return _asks_global(program, given)


def _asks_global(program: Program, value: ast.expr) -> bool:
    """`dist.get_rank()`, `int(os.environ["RANK"])`."""
    if isinstance(value, ast.Call):
        full = program.called(value)
        if full == "torch.distributed.get_rank":
            return not value.args and not value.keywords
        if method(value) == "int" and value.args:
            return _asks_global(program, value.args[0])
        if full in ("os.environ.get", "os.getenv") and value.args:
            return text_of(value.args[0]) == "RANK"
        return False
    return (
        isinstance(value, ast.Subscript)
        and program.dotted(value.value) == "os.environ"
        and text_of(value.slice) == "RANK"
    )


def wrapped_before_moved(program: Program, project: Project) -> Iterator[Hit]:
    """model = DDP(model) first, and model.to(device) or convert_sync_batchnorm(model) after it, under one name."""
    for scope in program.scopes:
        for wrap in scope.calls:
            if not (_is_ddp(program, wrap) and wrap.args):
                continue
            name = _bound_to(program, wrap)
            if not name or _moved(program, scope, name, wrap):
                continue
            for call in scope.calls:
                if call.lineno <= wrap.lineno or _other_branch(program, wrap, call):
                    continue
                if any(n == name and wrap.lineno < s.lineno <= call.lineno for n, _, s in scope.bound):
                    break  # another model by the same name
                moves = method(call) in ("to", "cuda") and receiver(call) == name
                if moves and not _only_dtype(program, call):
                    note = "The model is moved after DDP has wrapped it, whose buckets are on the old device."
                    yield hit("wrapped_before_moved", program, call, note, wrap, weight=0.8)
                    break


def _moved(program: Program, scope: Scope, name: str, wrap: ast.Call) -> bool:
    """Whether the model was moved before it is wrapped, in whatever way: then a later move changes nothing."""
    for call in scope.calls:
        if call.lineno > wrap.lineno or method(call) not in ("to", "cuda"):
            continue
        if receiver(call) == name or any(n == name and any(c is call for c in walk(v)) for n, v, _ in scope.bound):
            return True
    return any(isinstance(n, ast.Call) and method(n) in ("to", "cuda") for n in walk(wrap.args[0]))


def sync_batchnorm_after_ddp(program: Program, project: Project) -> Iterator[Hit]:
    """convert_sync_batchnorm() on a model that DDP has wrapped already."""
    for scope in program.scopes:
        wraps = {name: c for c in scope.calls if _is_ddp(program, c) and (name := _bound_to(program, c))}
        for call in scope.calls:
            name = plain(call.args[0]) if method(call) == "convert_sync_batchnorm" and call.args else ""
            if name in wraps and call.lineno > wraps[name].lineno and not _other_branch(program, wraps[name], call):
                note = "SyncBatchNorm is put in after DDP has wrapped the model; the conversion has to come first."
                yield hit("sync_batchnorm_after_ddp", program, call, note, wraps[name], weight=0.75)


def _bound_to(program: Program, call: ast.Call) -> str:
    parent = program.parents.get(call)
    return plain(parent.targets[0]) if isinstance(parent, ast.Assign) else ""


def _only_dtype(program: Program, call: ast.Call) -> bool:
    return bool(call.args) and program.dotted(call.args[0]).startswith("torch.") and "device" not in names_in(call)


def _other_branch(program: Program, one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes stand in different branches of one `if`."""
    around = {id(p): p for p in program.above(one)}
    for parent in program.above(other):
        if isinstance(parent, ast.If) and id(parent) in around:
            in_body = [any(n is x for n in walk(parent.body)) for x in (one, other)]
            if in_body[0] != in_body[1]:
                return True
    return False


def optimizer_before_model(program: Program, project: Project) -> Iterator[Hit]:
    """An optimizer built from parameters that the model does not train with.

    It is made before FSDP or LoRA wraps the model, or before the model is given a new layer.
    """
    yield from _built_early(program, moves=False)


def optimizer_before_move(program: Program, project: Project) -> Iterator[Hit]:
    """An optimizer built before .to(device) or .cuda(). Most go on working, since parameters keep their identity."""
    yield from _built_early(program, moves=True)


def _built_early(program: Program, *, moves: bool) -> Iterator[Hit]:
    for scope in program.scopes:
        for optimizer in scope.calls:
            full = program.called(optimizer)
            if not full.startswith(("torch.optim.", "optim.")) or "lr_scheduler" in full or not optimizer.args:
                continue
            model = _whose_parameters(scope, optimizer.args[0])
            if model:
                yield from _changed_after(program, scope, optimizer, model, moves)


def _whose_parameters(scope: Scope, given: ast.expr) -> str:
    """The one model whose parameters an expression lists: all, filtered, or in groups; empty where it is not one."""
    if isinstance(given, ast.Name):
        values = scope.values(given.id)
        if len(values) != 1:
            return ""
        given = values[0]
    lists = [n for n in walk(given) if isinstance(n, ast.Call) and method(n) in ("parameters", "named_parameters")]
    owners = {receiver(call) for call in lists}
    return owners.pop() if len(owners) == 1 else ""


_REPLACES = ("get_peft_model", "FSDP", "FullyShardedDataParallel", "prepare_model_for_kbit_training")


def _changed_after(program: Program, scope: Scope, optimizer: ast.Call, model: str, moves: bool) -> Iterator[Hit]:
    for node in scope.nodes:
        if not isinstance(node, ast.Assign | ast.Expr) or node.lineno <= optimizer.lineno:
            continue
        if _other_branch(program, optimizer, node) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        target = plain(node.targets[0]) if isinstance(node, ast.Assign) else ""
        if any(n == f"{model}" for n, v, s in scope.bound if optimizer.lineno < s.lineno < node.lineno):
            return  # another model by the same name
        if moves:
            if method(call) in ("to", "cuda") and receiver(call) == model and not _only_dtype(program, call):
                note = (
                    "The optimizer is built before the model is moved; state that it made by then is on the old device."
                )
                yield hit("optimizer_before_move", program, call, note, optimizer, weight=0.5)
                return
            continue
        if method(call) in _REPLACES and call.args and plain(call.args[0]) == model and target == model:
            note = f"{method(call)}() makes new parameters; the optimizer above holds the old ones."
            yield hit("optimizer_before_model", program, call, note, optimizer, weight=0.85)
            return
        layer = target.startswith(f"{model}.") and target.count(".") == model.count(".") + 1
        if layer and program.called(call).startswith(("torch.nn.", "nn.")) and last(program.called(call))[0].isupper():
            note = f"`{target}` is replaced after the optimizer was built; its new weights are in no parameter group."
            yield hit("optimizer_before_model", program, call, note, optimizer, weight=0.85)
            return


# Families of torchvision.models that hold BatchNorm; VGG has it only where its name says so, and others not at all.
_NORMALISED = ("resnet", "resnext", "wide_resnet", "densenet", "mobilenet", "mnasnet", "efficientnet_b", "regnet",
               "shufflenet", "googlenet", "inception")  # fmt: skip


def _has_batchnorm(program: Program, call: ast.Call) -> bool:
    full = program.called(call)
    name = last(full)
    return full.startswith("torchvision.models.") and (name.startswith(_NORMALISED) or name.endswith("_bn"))


def batchnorm_not_synchronised(program: Program, project: Project) -> Iterator[Hit]:
    """BatchNorm under DDP(broadcast_buffers=False) without SyncBatchNorm: running statistics part between the ranks.

    Accelerate and Lightning take the setting in a class of their own.
    """
    if {"SyncBatchNorm", "convert_sync_batchnorm", "sync_batchnorm"} & program.words:
        return
    norms = [c for c in program.calls if method(c).startswith("BatchNorm") or _has_batchnorm(program, c)]
    for call in program.calls:
        if not norms or not is_false(keyword(call, "broadcast_buffers")):
            continue
        if _is_ddp(program, call) or method(call) in ("DistributedDataParallelKwargs", "DDPStrategy"):
            note = "With broadcast_buffers=False every rank keeps its own BatchNorm statistics."
            yield hit("batchnorm_not_synchronised", program, call, note, norms[0], weight=0.75)


def layers_without_gradient(program: Program, project: Project) -> Iterator[Hit]:
    """Layers of a DDP model that its forward uses on a condition, or never, without find_unused_parameters=True."""
    for call in program.calls:
        if not _is_ddp(program, call) or open_ended(call) or not call.args:
            continue
        unused, static = keyword(call, "find_unused_parameters"), keyword(call, "static_graph")
        if (unused is not None and not is_false(unused)) or is_true(static):
            continue
        owner = _built(program, call, call.args[0])
        if owner is not None:
            yield from _conditional_layers(program, call, owner)


def _built(program: Program, at: ast.AST, value: ast.expr, depth: int = 0) -> ast.ClassDef | None:
    """The class of this program whose instance an expression is."""
    if depth > 6:
        return None
    if isinstance(value, ast.Name):
        values = [v for v in program.scope_of(at).values(value.id) if not any(n is at for n in ast.walk(v))]
        return _built(program, at, values[0], depth + 1) if len(values) == 1 else None
    if not isinstance(value, ast.Call):
        return None
    if method(value) in ("to", "cuda", "train", "float") and isinstance(value.func, ast.Attribute):
        return _built(program, at, value.func.value, depth + 1)
    return program.classes.get(method(value)) if isinstance(value.func, ast.Name) else None


def _conditional_layers(program: Program, wrap: ast.Call, owner: ast.ClassDef) -> Iterator[Hit]:
    scopes = {s.name: s for s in program.scopes if s.owner is owner}
    init, forward = scopes.get("__init__"), scopes.get("forward")
    if init is None or forward is None:
        return
    layers = {
        name: value
        for name, value, _ in init.bound
        if name.startswith("self.")
        and isinstance(value, ast.Call)
        and last(program.called(value)) in ("Linear", "Conv2d", "Conv1d", "Embedding", "LSTM", "GRU", "Bilinear")
        and not any(isinstance(p, ast.If) for p in program.above(value))
    }
    arguments = {a.arg for a in (*forward.node.args.args[1:], *forward.node.args.kwonlyargs)}  # type: ignore[union-attr]
    everywhere = {
        n.attr
        for s in program.scopes
        if s.owner is owner and s is not init
        for n in s.nodes
        if isinstance(n, ast.Attribute)
    }
    dynamic = {"getattr", "children", "modules", "named_children", "_modules"} & program.words
    for name, value in layers.items():
        uses = [n for n in forward.nodes if isinstance(n, ast.Attribute) and plain(n) == name]
        attribute = name.removeprefix("self.")
        if not uses:
            outside = any(
                isinstance(n, ast.Attribute) and n.attr == attribute and plain(n) != name for n in program.parents
            )
            if attribute not in everywhere and not dynamic and not outside:
                note = f"`{name}` is a layer that forward() never uses: it gets no gradient, and DDP waits for it."
                yield hit("layers_without_gradient", program, value, note, wrap, weight=0.75)
            continue
        tests = [_condition(program, forward, use) for use in uses]
        if all(t is not None and names_in(t.test) & arguments and not _asks_none(t.test) for t in tests):
            branch = tests[0]
            if branch is None or (branch.orelse and _both(branch, name)):
                continue
            note = f"`{name}` is used on a condition: in a step without it DDP waits for its gradient."
            yield hit("layers_without_gradient", program, uses[0], note, wrap, branch, weight=0.75)


def _condition(program: Program, scope: Scope, node: ast.AST) -> ast.If | ast.IfExp | None:
    for parent in program.above(node):
        if parent is scope.node:
            return None
        if isinstance(parent, ast.If | ast.IfExp) and not any(n is node for n in ast.walk(parent.test)):
            return parent
    return None


def _asks_none(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(isinstance(o, ast.Is | ast.IsNot) for o in test.ops)


def _both(branch: ast.If | ast.IfExp, name: str) -> bool:
    body = branch.body if isinstance(branch.body, list) else [branch.body]
    orelse = branch.orelse if isinstance(branch.orelse, list) else [branch.orelse]
    return all(any(plain(n) == name for n in walk(part)) for part in (body, orelse))
