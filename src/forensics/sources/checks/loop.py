"""The order of calls in a training loop: zero_grad, backward, clip, step, scheduler, accumulation."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from forensics.sources.checks.losses import without_grad
from forensics.sources.hits import Hit, hit
from forensics.sources.program import (
    LOOPS,
    Loop,
    Program,
    Scope,
    calls_in,
    last,
    method,
    names_in,
    plain,
    receiver,
    walk,
)
from forensics.sources.project import Project

_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
_ENGINES = ("deepspeed", "lightning", "pytorch_lightning", "colossalai", "ignite")


def _training_loops(program: Program) -> Iterator[tuple[Scope, Loop, list[ast.Call]]]:
    """(scope, innermost loop, its calls in order) of every loop with a backward() in it."""
    for scope in program.scopes:
        seen: set[int] = set()
        for call in scope.calls:
            if method(call) != "backward":
                continue
            around = program.loops_around(call)
            if around and id(around[0]) not in seen:
                seen.add(id(around[0]))
                yield scope, around[0], calls_in(around[0])


def _optimizers(program: Program) -> set[str]:
    """Names that are bound to one optimizer: made by a class of torch.optim, or called one."""
    found = set()
    for scope in program.scopes:
        for name, value, _ in scope.bound:
            full = program.called(value) if isinstance(value, ast.Call) else ""
            if full.startswith(("torch.optim.", "optim.")) and "lr_scheduler" not in full:
                found.add(name)
    return found


def _is_optimizer(program: Program, name: str) -> bool:
    return name in _optimizers(program) or last(name).lower() in ("optimizer", "optim", "opt")


def _straight(program: Program, loop: Loop, calls: list[ast.Call]) -> bool:
    """Whether calls stand directly in a loop's body: no branch, no inner loop, no function in between."""
    for call in calls:
        for parent in program.above(call):
            if parent is loop:
                break
            if isinstance(parent, (ast.If | ast.Try | ast.IfExp | ast.Lambda, LOOPS)):
                return False
    return True


def zero_grad_wrong(program: Program, project: Project) -> Iterator[Hit]:
    """Gradients cleared between backward() and step(), or never.

    backward, step and zero_grad may begin anywhere in the turn of a loop; what matters is which follows which.
    """
    if any(program.uses(name) for name in _ENGINES):
        return
    for scope, loop, calls in _training_loops(program):
        backward = [c for c in calls if method(c) == "backward"]
        steps = [c for c in calls if method(c) == "step" and _steps_optimizer(program, c)]
        zeros = [c for c in calls if method(c) in ("zero_grad", "zero_")]
        if len(backward) != 1 or len(steps) != 1:
            continue
        if len(zeros) == 1 and _straight(program, loop, [*backward, *steps, *zeros]):
            owner = receiver(steps[0])
            if not _same_owner(program, zeros[0], steps[0]):
                continue
            order = sorted(
                (("B", backward[0]), ("S", steps[0]), ("Z", zeros[0])), key=lambda pair: calls.index(pair[1])
            )
            if "".join(letter for letter, _ in order) in ("BZS", "ZSB", "SBZ"):
                note = f"The gradients of backward() are cleared before {owner or 'the optimizer'} steps: weights stay."
                yield hit("zero_grad_wrong", program, zeros[0], note, backward[0], steps[0], span=loop, weight=0.9)
        elif not zeros and _never_cleared(program, project, scope, loop):
            note = "No zero_grad() clears the gradients: every step adds to those of all steps before."
            yield hit("zero_grad_wrong", program, steps[0], note, backward[0], span=loop, weight=0.85)


def _steps_optimizer(program: Program, call: ast.Call) -> bool:
    name = receiver(call)
    if _is_optimizer(program, name):
        return True
    given = call.args[0] if call.args else None
    return "scaler" in last(name).lower() and given is not None and _is_optimizer(program, plain(given))


def _same_owner(program: Program, zero: ast.Call, step: ast.Call) -> bool:
    owner = receiver(zero)
    stepped = receiver(step) if "scaler" not in receiver(step).lower() else plain(step.args[0])
    if owner == stepped:
        return True
    return not _is_optimizer(program, owner) and len(_optimizers(program)) <= 1 and "model" in owner


def _never_cleared(program: Program, project: Project, scope: Scope, loop: Loop) -> bool:
    """Whether nothing in the program can clear gradients: no zero_grad, no `.grad = None`, no manual zeroing."""
    if {"zero_grad", "zero_grad_", "zero_gradients", "grad", "accelerate", "dist_autograd"} & program.words:
        return False
    if not (program.words & {"optim"} or _optimizers(program)):
        return False
    reached = [project.resolve(program, c) for c in calls_in(loop)]
    return not any(r is not None and "zero_grad" in r[0].words for r in reached)


def clip_after_step(program: Program, project: Project) -> Iterator[Hit]:
    """clip_grad_norm_ after the step that it should limit, or before the backward() that makes the gradients."""
    for _scope, loop, calls in _training_loops(program):
        backward = [c for c in calls if method(c) == "backward"]
        steps = [c for c in calls if method(c) == "step" and _steps_optimizer(program, c)]
        clips = [c for c in calls if method(c) in _CLIPS]
        if len(backward) != 1 or len(steps) != 1 or len(clips) != 1:
            continue
        if not _straight(program, loop, [*backward, *steps, *clips]):
            continue
        order = sorted((("B", backward[0]), ("S", steps[0]), ("C", clips[0])), key=lambda pair: calls.index(pair[1]))
        if "".join(letter for letter, _ in order) in ("BSC", "CBS", "SCB"):
            note = "The gradients are clipped outside of backward() and step(): what the optimizer uses is not clipped."
            yield hit("clip_after_step", program, clips[0], note, steps[0], span=loop, weight=0.9)


def _schedulers(program: Program) -> dict[str, ast.Call]:
    """Names of schedulers and the one call that makes each."""
    found: dict[str, list[ast.Call]] = {}
    for scope in program.scopes:
        for name, value, _ in scope.bound:
            full = program.called(value) if isinstance(value, ast.Call) else ""
            if isinstance(value, ast.Call) and (
                ".lr_scheduler." in f".{full}"
                or last(full).startswith(("get_linear_sch", "get_cosine_sch", "get_constant_sch"))
            ):
                found.setdefault(name, []).append(value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def scheduler_before_optimizer(program: Program, project: Project) -> Iterator[Hit]:
    """scheduler.step() before optimizer.step() in the same turn of a loop: the first learning rate is never used.

    In the loop over batches, in Lightning's training_step, or at the head of an epoch, as was right before torch 1.1.
    """
    made = _schedulers(program)
    note = "The scheduler steps before the optimizer: the first value of the schedule is skipped."
    for _scope, loop, calls in _training_loops(program):
        steps = [c for c in calls if method(c) == "step"]
        optimizer = [c for c in steps if _steps_optimizer(program, c)]
        scheduler = [c for c in steps if receiver(c) in made and not c.args]
        if len(optimizer) != 1 or len(scheduler) != 1:
            continue
        if not (_straight(program, loop, [*optimizer, *scheduler]) or _beside(program, optimizer[0], scheduler[0])):
            continue
        if calls.index(scheduler[0]) < calls.index(optimizer[0]):
            yield hit("scheduler_before_optimizer", program, scheduler[0], note, optimizer[0], span=loop, weight=0.85)
    for scope in program.scopes:
        yield from _in_training_step(program, scope, note)
        yield from _at_head_of_epoch(program, project, scope, set(made))


def _beside(program: Program, one: ast.Call, other: ast.Call) -> bool:
    """Whether two calls are statements of one and the same block."""
    first, second = program.statement(one), program.statement(other)
    return first is not None and second is not None and second in program.block(first)


def _in_training_step(program: Program, scope: Scope, note: str) -> Iterator[Hit]:
    """Lightning's manual optimization, which gets both from the module."""
    if scope.name != "training_step":
        return
    got = {name: method(value) for name, value, _ in scope.bound if isinstance(value, ast.Call)}
    steps = [c for c in scope.calls if method(c) == "step" and not c.args]
    optimizer = [c for c in steps if got.get(receiver(c)) == "optimizers"]
    scheduler = [c for c in steps if got.get(receiver(c)) == "lr_schedulers"]
    if len(optimizer) != 1 or len(scheduler) != 1 or not _beside(program, optimizer[0], scheduler[0]):
        return
    if scope.calls.index(scheduler[0]) < scope.calls.index(optimizer[0]):
        yield hit("scheduler_before_optimizer", program, scheduler[0], note, optimizer[0], weight=0.85)


def _at_head_of_epoch(program: Program, project: Project, scope: Scope, schedulers: set[str]) -> Iterator[Hit]:
    """The scheduler steps in the loop over epochs, before all of the epoch's training."""
    for call in scope.calls:
        if method(call) != "step" or receiver(call) not in schedulers or call.args or call.keywords:
            continue
        around = program.loops_around(call)
        statement = program.statement(call)
        if not around or statement is None or statement not in around[0].body or not _is_epochs(around[0]):
            continue
        loop, at = around[0], around[0].body.index(statement)
        others = [c for c in calls_in(loop) if c is not call and method(c) == "step" and receiver(c) == receiver(call)]
        before = _trains(program, project, loop.body[:at])
        after = _trains(program, project, loop.body[at + 1 :])
        if not others and before is None and after is not None:
            note = "The scheduler steps at the head of the epoch: the first value of the schedule is skipped."
            yield hit("scheduler_before_optimizer", program, call, note, after, span=loop, weight=0.8)


def _trains(program: Program, project: Project, body: Sequence[ast.stmt]) -> ast.Call | None:
    """The call in a stretch of statements that steps an optimizer, itself or in the function that it reaches."""
    for call in calls_in(body):
        if method(call) == "step" and _steps_optimizer(program, call):
            return call
        reached = project.resolve(program, call)
        if reached is not None and any(
            method(c) == "step" and _steps_optimizer(reached[0], c) for c in reached[1].calls
        ):
            return call
    return None


def _is_epochs(loop: Loop) -> bool:
    if not isinstance(loop, ast.For):
        return False
    words = {w.lower() for w in names_in(loop.target) | names_in(loop.iter)}
    return any("epoch" in w for w in words)


def _per_batch(program: Program, call: ast.Call) -> bool | None:
    """Whether a call is made for each batch (True) or for each epoch (False); None where that is not plain."""
    around = program.loops_around(call)
    if not around:
        return None
    if _is_epochs(around[0]):
        trains = any(method(c) == "backward" for c in calls_in(around[0]))
        inner = [n for n in walk(around[0].body, into=False) if isinstance(n, LOOPS)]
        return False if inner or not trains else None
    return True if len(around) > 1 and _is_epochs(around[1]) else None


_PER_BATCH_ONLY = ("OneCycleLR", "get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup")


def scheduler_cadence(program: Program, project: Project) -> Iterator[Hit]:
    """A schedule counted in batches that is stepped once an epoch, or one counted in epochs stepped for each batch."""
    made = _schedulers(program)
    for scope in program.scopes:
        for call in scope.calls:
            if method(call) != "step" or receiver(call) not in made:
                continue
            maker = made[receiver(call)]
            per_batch = _per_batch(program, call)
            every = [c for c in program.calls if method(c) == "step" and receiver(c) == receiver(call)]
            if per_batch is None or len(every) != 1:
                continue
            name = last(program.called(maker))
            if not per_batch and name in _PER_BATCH_ONLY and _counts_batches(maker):
                note = f"{name} is counted in batches here, and stepped once an epoch."
                yield hit("scheduler_cadence", program, call, note, maker, weight=0.85)
            elif per_batch and name == "CosineAnnealingLR" and _counts_epochs(maker):
                note = f"{name} is counted in epochs here, and stepped for each batch."
                yield hit("scheduler_cadence", program, call, note, maker, weight=0.8)


def _counts_batches(maker: ast.Call) -> bool:
    words = {w for k in maker.keywords for w in (names_in(k.value) | {k.arg or ""})} | {
        w for a in maker.args for w in names_in(a)
    }
    return any("loader" in w.lower() or w in ("steps_per_epoch", "num_training_steps", "total_steps") for w in words)


def _counts_epochs(maker: ast.Call) -> bool:
    given = next((k.value for k in maker.keywords if k.arg == "T_max"), maker.args[1] if len(maker.args) > 1 else None)
    words = names_in(given)
    return isinstance(given, ast.Name | ast.Attribute) and any("epoch" in w.lower() for w in words)


def accumulation_not_averaged(program: Program, project: Project) -> Iterator[Hit]:
    """Gradients of several batches summed for one step, and the loss not divided by their number."""
    if any(program.uses(name) for name in (*_ENGINES, "accelerate")):
        return
    for scope, loop, calls in _training_loops(program):
        for node in walk(loop.body, into=False):
            if not isinstance(node, ast.If) or (every := _every(node.test)) is None:
                continue
            inside = calls_in(_taken_every(program, node))
            if not any(method(c) == "step" and _steps_optimizer(program, c) for c in inside):
                continue
            if not any(method(c) == "zero_grad" for c in inside):
                continue
            backward = [c for c in calls if method(c) == "backward" and c not in inside]
            if len(backward) != 1 or _divides(program, scope, every, loop):
                continue
            number = ast.unparse(every)
            note = f"The gradients of {number} batches are summed, and the loss is not divided by {number}."
            yield hit("accumulation_not_averaged", program, backward[0], note, node, span=loop, weight=0.8)


def _every(test: ast.expr) -> ast.expr | None:
    """N of `(i + 1) % N == 0`; None where a condition is of another kind, or N is 1."""
    for node in walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            n = node.right
            if isinstance(n, ast.Constant):
                return n if isinstance(n.value, int) and n.value > 1 else None
            return n if plain(n) and any(w in plain(n).lower() for w in ("acc", "accum", "grad", "iter_size")) else None
    return None


def _taken_every(program: Program, branch: ast.If) -> Sequence[ast.stmt]:
    """The statements that are run once in N turns: the body of `if i % N == 0`; for `if i % N` the other branch, or
    what stands below it where the body goes on with the next turn.
    """
    test, negated = branch.test, False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, negated = test.operand, not negated
    compared = test.ops[0] if isinstance(test, ast.Compare) and len(test.ops) == 1 else None
    others = isinstance(compared, ast.NotEq | ast.Gt) or (
        compared is None and isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod)
    )
    if others == negated:
        return branch.body
    if branch.body and isinstance(branch.body[-1], ast.Continue):
        block = program.block(branch)
        return block[next(i for i, s in enumerate(block) if s is branch) + 1 :] if branch in block else ()
    return branch.orelse


def _divides(program: Program, scope: Scope, every: ast.expr, loop: Loop) -> bool:
    """Whether anything is divided by the number (or by another one, in a way that may be the same)."""
    for node in ast.walk(scope.node):
        divided: ast.expr | None = None
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
            divided = node.right if isinstance(node, ast.BinOp) else node.value
            words = names_in(node)
        elif isinstance(node, ast.Call) and method(node) in ("div", "div_", "mul_", "mul"):
            divided = node.args[0] if node.args else None
            words = names_in(node)
        else:
            continue
        if divided is None:
            continue
        if ast.dump(divided) == ast.dump(every) or (names_in(divided) & names_in(every)):
            return True
        if any("loss" in w.lower() or w == "grad" for w in words) and _in(loop, node):
            return True
    word = last(plain(every))
    # The loss may be made elsewhere, where the number is known as well.
    return bool(word) and any(
        isinstance(c, ast.Call) and any(word in names_in(a) for a in (*c.args, *(k.value for k in c.keywords)))
        for c in calls_in(loop)
    )


def _in(loop: Loop, node: ast.AST) -> bool:
    return any(n is node for n in walk(loop))


def graph_kept(program: Program, project: Project) -> Iterator[Hit]:
    """A loss added up or collected with its graph: `total += loss` keeps the graphs of all batches in memory."""
    for scope, loop, calls in _training_loops(program):
        losses = {receiver(c) for c in calls if method(c) == "backward"} - {""}
        losses = {name for name in losses if not _is_engine(program, name)}
        backward = {receiver(c) for c in program.calls if method(c) == "backward"}
        scaled = {plain(a) for c in program.calls if method(c) in ("scale", "backward") for a in c.args}
        losses |= {name for name in scaled if name and name in {n for n, _, _ in scope.bound}}
        tensors = {name for name in losses if _is_tensor_loss(scope, name)}
        for node in walk(loop.body, into=False):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                target, value = plain(node.target), plain(node.value)
            elif isinstance(node, ast.Call) and method(node) == "append" and len(node.args) == 1:
                target, value = receiver(node), plain(node.args[0])
            else:
                continue
            if value not in tensors or not target or target in backward or target in scaled or target == value:
                continue
            if without_grad(program, node) or _reset_inside(scope, loop, target) or _used_later(program, scope, target):
                continue
            note = (
                f"`{target}` collects `{value}` with its graph, which cannot be freed: use {value}.item() or detach()."
            )
            yield hit("graph_kept", program, node, note, span=loop, weight=0.8)


def _is_engine(program: Program, name: str) -> bool:
    return any(word in last(name).lower() for word in ("engine", "accelerator", "fabric", "scaler", "model"))


def _is_tensor_loss(scope: Scope, name: str) -> bool:
    """Whether no value of a name is a plain number (`loss = loss.item()`)."""
    values = scope.values(name)
    return bool(values) and not any(
        isinstance(n, ast.Call) and method(n) in ("item", "detach", "float", "cpu", "tolist")
        for value in values
        for n in walk(value)
    )


def _reset_inside(scope: Scope, loop: Loop, target: str) -> bool:
    """Whether what is added up begins anew in each turn of the loop: a sum of parts of one loss."""
    inside = {id(n) for n in walk(loop.body)}
    return any(name == target and id(statement) in inside for name, _, statement in scope.bound)


def _used_later(program: Program, scope: Scope, target: str) -> bool:
    """Whether the sum itself goes into something that is differentiated or stacked into a loss."""
    for call in scope.calls:
        if method(call) in ("stack", "cat", "sum", "mean", "scale") and call.args and plain(call.args[0]) == target:
            parent = program.parents.get(call)
            if not (isinstance(parent, ast.Attribute) and parent.attr in ("item", "detach")):
                return True
    return False
