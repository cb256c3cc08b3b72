"""GradScaler and the engines that stand in for backward() and step()."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from forensics.sources.hits import Hit, hit
from forensics.sources.program import (
    Program,
    Scope,
    any_name,
    calls_in,
    is_false,
    keyword,
    last,
    method,
    names_in,
    plain,
    receiver,
    text_of,
)
from forensics.sources.project import Project

_CLIPS = ("clip_grad_norm_", "clip_grad_value_")


def _scalers(program: Program) -> dict[str, ast.Call]:
    """Names bound to a GradScaler, and the call that makes it; one that is switched off is none."""
    found = {}
    for scope in program.scopes:
        for name, value, _ in scope.bound:
            if not isinstance(value, ast.Call) or is_false(keyword(value, "enabled")):
                continue
            if last(program.called(value)) in ("GradScaler", "ShardedGradScaler"):
                found[name] = value
    return found


def _step_scopes(program: Program) -> Iterator[tuple[Scope, dict[str, list[ast.Call]]]]:
    """Functions that scale a loss, with their calls of the scaler's methods by name."""
    scalers = _scalers(program)
    if not scalers:
        return
    for scope in program.scopes:
        found: dict[str, list[ast.Call]] = {}
        for call in scope.calls:
            if receiver(call) in scalers:
                found.setdefault(method(call), []).append(call)
        if "step" in found:
            yield scope, found


def clip_without_unscale(program: Program, project: Project) -> Iterator[Hit]:
    """clip_grad_norm_ between scaler.scale(loss).backward() and scaler.step() without scaler.unscale_().

    Accelerate: torch's own clip_grad_norm_ in a program with mixed_precision="fp16", whose accelerator unscales in its.
    """
    for scope, calls in _step_scopes(program):
        scaled = calls.get("scale") or _scaled_elsewhere(program, scope)
        if "unscale_" in program.words or not scaled:
            continue
        here = bool(calls.get("scale"))
        for call, clip in _clips(program, project, scope):
            if _without_scaler(program, call, calls["step"][0]):
                continue
            if not here and not _only_about_clipping(program, scope, call, calls["step"][0]):
                continue
            if (not here or scaled[0].lineno < call.lineno) and call.lineno < calls["step"][-1].lineno:
                note = "These gradients are still multiplied by the loss scale: unscale_() has to come first."
                yield hit("clip_without_unscale", program, clip, note, calls["step"][-1], weight=0.9)
                break
    if program.uses("accelerate") and not {"unscale_gradients", "GradScaler"} & program.words:
        half = [c for c in program.calls if last(program.called(c)) == "Accelerator"
                and text_of(keyword(c, "mixed_precision")) == "fp16"]  # fmt: skip
        for clip in program.calls:
            if half and method(clip) in _CLIPS and program.called(clip).startswith("torch.nn.utils"):
                note = "The accelerator scales the loss (fp16); use accelerator.clip_grad_norm_, which unscales first."
                yield hit("clip_without_unscale", program, clip, note, half[0], weight=0.8)


def _clips(program: Program, project: Project, scope: Scope) -> Iterator[tuple[ast.Call, ast.Call]]:
    """(call in the scope, the clipping that it is or comes to) of each; a function that does so on a condition of its
    own is none, unless the condition is about clipping."""
    for call in scope.calls:
        if method(call) in _CLIPS:
            yield call, call
            continue
        reached = project.resolve(program, call)
        if reached is None or reached[0] is not program or reached[1] is scope:
            continue
        inner = reached[1]
        leaves = [n.lineno for n in inner.nodes if isinstance(n, ast.Return | ast.Raise)]
        for clip in inner.calls:
            early = any(line < clip.lineno for line in leaves)
            if method(clip) in _CLIPS and not early and _only_about_clipping(program, inner, clip, None):
                yield call, clip
                break


def _scaled_elsewhere(program: Program, scope: Scope) -> list[ast.Call]:
    """Where other methods of a method's class scale the loss."""
    if scope.owner is None:
        return []
    scalers = _scalers(program)
    others = [s for s in program.scopes if s.owner is scope.owner and s is not scope]
    return [c for s in others for c in s.calls if method(c) == "scale" and receiver(c) in scalers]


def _only_about_clipping(program: Program, scope: Scope, clip: ast.Call, step: ast.Call | None) -> bool:
    """Whether the branches around a clip that are not around the scaler's step as well ask for clipping alone."""
    ours = {id(p) for p in program.above(step)} if step is not None else set()
    tests = [p.test for p in program.above(clip) if isinstance(p, ast.If) and id(p) not in ours and p in scope.nodes]
    return all(any(w in word.lower() for w in ("clip", "norm") for word in names_in(test)) for test in tests)


def _without_scaler(program: Program, clip: ast.Call, step: ast.Call) -> bool:
    """Whether a clip stands in a branch that the scaler's step does not share (`else:` for full precision)."""
    ours = {id(p) for p in program.above(step)}
    for parent in program.above(clip):
        if isinstance(parent, ast.If) and id(parent) not in ours and not (
            names_in(parent.test) & {"clip", "max_norm", "grad_clip", "clip_grad", "clip_grad_norm", "max_grad_norm"}
        ):  # fmt: skip
            return bool(parent.orelse)
        if isinstance(parent, ast.If) and id(parent) in ours:
            in_body = any(n is clip for n in calls_in(parent.body))
            return in_body != any(n is step for n in calls_in(parent.body))
    return False


def scaler_update_wrong(program: Program, project: Project) -> Iterator[Hit]:
    """scaler.step() without scaler.update(), or update() twice after one step()."""
    for scope, calls in _step_scopes(program):
        if "update" not in calls:
            if not any(method(c) == "update" and receiver(c) in _scalers(program) for c in program.calls):
                note = "scaler.step() without scaler.update(): the second step() raises, and the scale never changes."
                yield hit("scaler_update_wrong", program, calls["step"][0], note, weight=0.85)
            continue
        updates = calls["update"]
        steps = calls["step"]
        if len(updates) == 2 and len(steps) == 1 and not _in_branches(program, [*updates, *steps], scope):
            note = "scaler.update() is called twice after one step(): nothing was recorded for the second."
            yield hit("scaler_update_wrong", program, updates[1], note, updates[0], weight=0.85)


def _in_branches(program: Program, calls: list[ast.Call], scope: Scope) -> bool:
    return any(
        isinstance(parent, ast.If | ast.Try)
        for call in calls
        for parent in program.above(call)
        if parent is not scope.node
    )


def unscale_twice(program: Program, project: Project) -> Iterator[Hit]:
    """scaler.unscale_() twice for one optimizer between two updates."""
    for scope, calls in _step_scopes(program):
        twice = calls.get("unscale_", [])
        if len(twice) != 2 or _in_branches(program, twice, scope):
            continue
        first, second = (plain(c.args[0]) if c.args else "" for c in twice)
        if first == second:
            note = "unscale_() is called twice for one optimizer before update(): the second call raises."
            yield hit("unscale_twice", program, twice[1], note, twice[0], weight=0.85)


def scaler_bypassed(program: Program, project: Project) -> Iterator[Hit]:
    """The loss is scaled and the optimizer steps by itself, or the scaler steps on a loss that was never scaled."""
    scalers = _scalers(program)
    if not scalers or program.uses("accelerate"):
        return
    for scope in program.scopes:
        scaled = [c for c in scope.calls if receiver(c) in scalers and method(c) == "scale"]
        stepped = [c for c in scope.calls if receiver(c) in scalers and method(c) == "step"]
        plain_steps = [c for c in scope.calls if method(c) == "step" and _is_optimizer(receiver(c))]
        backward = [c for c in scope.calls if method(c) == "backward"]
        if scaled and backward and plain_steps and not any(
            method(c) == "step" and receiver(c) in scalers for c in program.calls
        ):  # fmt: skip
            note = "The loss is scaled, and the optimizer steps without the scaler: its gradients are not unscaled."
            yield hit("scaler_bypassed", program, plain_steps[0], note, scaled[0], weight=0.85)
        elif stepped and backward and not any_name(program, ["scale", "scale_loss"]):
            note = (
                "The scaler steps, and the loss was never scaled: the gradients are divided by the scale all the same."
            )
            yield hit("scaler_bypassed", program, backward[0], note, stepped[0], weight=0.85)


def _is_optimizer(name: str) -> bool:
    return last(name).lower() in ("optimizer", "optim", "opt")


def scaler_with_bfloat16(program: Program, project: Project) -> Iterator[Hit]:
    """A GradScaler in a program whose autocast is bfloat16 only: it is not needed there."""
    for made in _scalers(program).values():
        if keyword(made, "enabled") is not None:
            continue
        kinds = {
            program.dotted(given)
            for c in program.calls
            if last(program.called(c)) == "autocast" and (given := keyword(c, "dtype")) is not None
        }
        if kinds == {"torch.bfloat16"} and not {"float16", "half"} & program.words:
            note = "bfloat16 has the range of float32 and needs no loss scale; one that falls here hides other faults."
            yield hit("scaler_with_bfloat16", program, made, note, weight=0.7)


def engine_bypassed(program: Program, project: Project) -> Iterator[Hit]:
    """loss.backward() or optimizer.step() in a program whose engine (DeepSpeed, Accelerate) should make them."""
    if program.uses("deepspeed"):
        yield from _past_deepspeed(program)
    if program.uses("accelerate"):
        made = {
            n for s in program.scopes for n, v, _ in s.bound if isinstance(v, ast.Call) and method(v) == "Accelerator"
        }
        for scope in program.scopes:
            through = [c for c in scope.calls if method(c) == "backward" and receiver(c) in made]
            past = [c for c in scope.calls if method(c) == "backward" and not c.args and "loss" in receiver(c).lower()]
            prepares = [c for c in scope.calls if method(c) == "prepare" and receiver(c) in made]
            if not _scales_or_accumulates(program):
                continue
            if made and past and not through and prepares and not any(
                method(c) == "backward" and receiver(c) in made for c in program.calls
            ):  # fmt: skip
                note = "accelerator.backward(loss) scales and accumulates; loss.backward() does neither."
                yield hit("engine_bypassed", program, past[0], note, prepares[0], weight=0.8)


def _scales_or_accumulates(program: Program) -> bool:
    """Whether an accelerator does what loss.backward() would not do: scale the loss, or divide it."""
    if "accumulate" in program.words:
        return True
    for call in program.calls:
        if last(program.called(call)) == "Accelerator":
            precision = keyword(call, "mixed_precision")
            return keyword(call, "gradient_accumulation_steps") is not None or text_of(precision) == "fp16"
    return False


def _past_deepspeed(program: Program) -> Iterator[Hit]:
    for scope in program.scopes:
        for node in scope.nodes:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            if program.called(node.value) != "deepspeed.initialize" or not isinstance(node.targets[0], ast.Tuple):
                continue
            names = [plain(e) for e in node.targets[0].elts]
            engine, optimizer = names[0], names[1] if len(names) > 1 else ""
            for call in scope.calls:
                if call.lineno < node.lineno or not program.loops_around(call):
                    continue
                if method(call) == "backward" and not call.args and not call.keywords and receiver(call) != engine:
                    loop = program.loops_around(call)[0]
                    runs = any(plain(c.func) == engine for c in calls_in(loop))
                    if runs and not any(method(c) == "backward" and c.args for c in scope.calls):
                        note = f"{engine}.backward(loss) scales, averages and accumulates; loss.backward() does not."
                        yield hit("engine_bypassed", program, call, note, node, weight=0.85)
                        break
                elif (
                    method(call) == "step"
                    and receiver(call) == optimizer
                    and optimizer not in ("", "_", "__")
                    and any(method(c) == "step" and receiver(c) == engine for c in scope.calls)
                ):
                    note = f"{engine}.step() steps the optimizer already; here it steps once more."
                    yield hit("engine_bypassed", program, call, note, node, weight=0.85)
                    break
