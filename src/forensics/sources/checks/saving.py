"""What is saved, by whom, and whether it is loaded again."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from dataclasses import replace

from forensics.sources.hits import Hit, hit
from forensics.sources.program import (
    Program,
    Scope,
    any_name,
    is_false,
    keyword,
    last,
    method,
    names_in,
    plain,
    receiver,
    text_of,
    walk,
)
from forensics.sources.project import Project
from forensics.sources.ranks import rank_test

_TRAINERS = ("lightning", "pytorch_lightning", "accelerate", "deepspeed", "composer", "ignite", "ray")
_WRAPS = ("DistributedDataParallel", "DDP")


def _saves(program: Program) -> list[ast.Call]:
    return [c for c in program.calls if program.called(c) == "torch.save" and len(c.args) >= 2]


def _is_distributed(program: Program) -> bool:
    return bool({"init_process_group", *_WRAPS} & program.words)


def _saved(program: Program, save: ast.Call) -> ast.expr:
    """What is saved: the dict that a name stands for, else the argument itself."""
    given = save.args[0]
    if isinstance(given, ast.Name):
        bound = [(s.lineno, v) for n, v, s in program.scope_of(save).bound if n == given.id and s.lineno <= save.lineno]
        if bound:
            return max(bound, key=lambda pair: pair[0])[1]
    return given


def every_rank_saves(program: Program, project: Project) -> Iterator[Hit]:
    """torch.save to one path by every rank of a distributed program."""
    if not _is_distributed(program) or any(program.uses(name) for name in _TRAINERS):
        return
    if {"dcp", "FSDP", "FullyShardedDataParallel"} & program.words:
        return
    for save in _saves(program):
        path = save.args[1]
        words = {w.lower() for w in names_in(path)}
        if any("rank" in w for w in words) or _path_has_rank(program, save, path):
            continue
        if not _for_some_ranks(program, project, save, 0):
            note = "Every rank writes this file, all of them at once and to one path."
            yield hit("every_rank_saves", program, save, note, weight=0.75)


def _path_has_rank(program: Program, save: ast.Call, path: ast.expr) -> bool:
    if not isinstance(path, ast.Name):
        return False
    return any("rank" in w.lower() for value in program.scope_of(save).values(path.id) for w in names_in(value))


def _for_some_ranks(program: Program, project: Project, node: ast.AST, depth: int) -> bool:
    """Whether a node stands behind a rank condition, also that of every caller of its function; True if not known."""
    scope = program.scope_of(node)
    for parent in program.above(node):
        if parent is scope.node:
            break
        if isinstance(parent, ast.If | ast.IfExp) and _maybe_rank(program, parent.test):
            return True
    for other in scope.nodes:  # `if rank != 0: return` before it
        if not isinstance(other, ast.If) or other.lineno >= getattr(node, "lineno", 0):
            continue
        if isinstance(other.body[-1], ast.Return | ast.Continue) and _maybe_rank(program, other.test):
            return True
    if not scope.name:
        return False
    if _decorated(scope):
        return True
    callers = project.callers.get(id(scope.node), [])
    if not callers:
        # Nothing here calls it: a main function is called by the launcher (spawn), a helper by who knows whom.
        return scope.name not in ("main", "train", "worker", "main_worker", "run", "demo_basic", "fit")
    if depth > 3:
        return True
    return all(_for_some_ranks(p, project, c, depth + 1) for p, c in callers)


def _maybe_rank(program: Program, test: ast.expr) -> bool:
    if rank_test(program, test) is not None:
        return True
    words = {w.lower() for w in names_in(test)} | {
        t.lower() for n in walk(test) if (t := text_of(n)) is not None and len(t) < 50
    }
    return any(
        "rank" in w or "main" in w or "master" in w or "primary" in w or w in ("gpu", "gpu_id", "device_id")
        for w in words
    )


def _decorated(scope: Scope) -> bool:
    decorators = getattr(scope.node, "decorator_list", [])
    return any(
        "rank" in w.lower() or "main" in w.lower() or "master" in w.lower() for d in decorators for w in names_in(d)
    )


def _keys(value: ast.expr) -> dict[str, ast.expr]:
    """The text keys of a dict that is written out."""
    if isinstance(value, ast.Dict):
        found = {text_of(k): v for k, v in zip(value.keys, value.values, strict=True) if k is not None}
        return {k: v for k, v in found.items() if k is not None}
    if isinstance(value, ast.Call) and method(value) == "dict" and isinstance(value.func, ast.Name):
        return {k.arg: k.value for k in value.keywords if k.arg}
    return {}


def _complete(value: ast.expr) -> bool:
    """Whether a dict shows all its keys: nothing is unpacked into it."""
    return not (isinstance(value, ast.Dict) and None in value.keys)


def _loads(program: Program, receivers: Container[str]) -> bool:
    return any(method(c) == "load_state_dict" and receiver(c) in receivers for c in program.calls)


def state_not_saved(program: Program, project: Project) -> Iterator[Hit]:
    """Checkpoints meant for resuming (they hold an epoch or a step) without the optimizer's, the scheduler's or the
    averaged model's state. An optimizer that has none (SGD without momentum) is left out.
    """
    yield from _not_saved("state_not_saved", program, scaler=False)


def scaler_not_saved(program: Program, project: Project) -> Iterator[Hit]:
    """Checkpoints meant for resuming without the state of the loss scaler: the scale starts anew and has to settle."""
    yield from _not_saved("scaler_not_saved", program, scaler=True)


# What follows from the state of which part not being there; the first is the signature.
_LOST = {
    "optimizer": ("checkpoint-without-optimizer", "optimizer-not-restored", "loss-spike"),
    "scheduler": ("lr-schedule-reset-on-resume", "lr-not-as-scheduled"),
    "averaged model": ("ema-lost-on-resume",),
    "loss scaler": ("loss-scale-stall", "gradscaler-no-inf-checks"),
}
# How keys under which they are saved are called.
_KEYS = {
    "optimizer": ("optim", "opt_"),
    "scheduler": ("sched", "lr"),
    "averaged model": ("ema", "averag", "swa"),
    "loss scaler": ("scale", "amp"),
}
# The same, told by the key under which a state is looked for.
_LOST_BY_KEY = (
    ("scal", "loss scaler"), ("amp", "loss scaler"), ("sched", "scheduler"), ("lr", "scheduler"), ("opt", "optimizer"),
    ("ema", "averaged model"),
)  # fmt: skip


def _not_saved(check: str, program: Program, *, scaler: bool) -> Iterator[Hit]:
    if any(program.uses(name) for name in _TRAINERS) or "backward" not in program.words:
        return
    saves = [(s, _saved(program, s)) for s in _saves(program)]
    resumable = [(s, v) for s, v in saves if _keys(v) and _complete(v) and _counts(_keys(v)) and _has_state(v)]
    if not resumable:
        return
    every = {w for _, v in saves for n in walk(v) for w in names_in(n)}
    states = _owners(program)
    for save, value in resumable:
        for what, names in states.items():
            if (what == "loss scaler") is not scaler:
                continue
            if any(last(name) in every or any(last(name) in k for k in _keys(value)) for name in names):
                continue
            keys = " ".join(k.lower() for k in _keys(value))
            if any(word in keys for word in _KEYS[what]):
                continue
            if _loads(program, names) or _saved_elsewhere(program, names):
                continue
            maker = next(iter(names.values()))
            note = f"This checkpoint is made to resume from, and does not hold the state of the {what}."
            yield Hit(
                check,
                note,
                (program.evidence(save), program.evidence(maker)),
                hit(check, program, save, note).places,
                0.75,
                signature=_LOST[what][0],
                supports=_LOST[what],
            )
        return


def _saved_elsewhere(program: Program, names: dict[str, ast.AST]) -> bool:
    return any(method(c) == "state_dict" and receiver(c) in names for c in program.calls)


def _counts(keys: dict[str, ast.expr]) -> bool:
    return any(word in key.lower() for key in keys for word in ("epoch", "step", "iter"))


def _has_state(value: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and method(n) == "state_dict" for n in walk(value))


def _owners(program: Program) -> dict[str, dict[str, ast.AST]]:
    """Names of optimizers, schedulers and loss scalers with what makes them, by kind."""
    found: dict[str, dict[str, ast.AST]] = {}
    for scope in program.scopes:
        for name, value, _ in scope.bound:
            if not isinstance(value, ast.Call):
                continue
            full = program.called(value)
            if ".lr_scheduler." in f".{full}" and "ReduceLROnPlateau" not in full:
                steps = [c for c in program.calls if method(c) == "step" and receiver(c) == name]
                # A schedule that is set to an epoch by hand needs no state.
                if steps and not any(c.args or c.keywords for c in steps) and "last_epoch" not in program.words:
                    found.setdefault("scheduler", {})[name] = value
            elif full.startswith(("torch.optim.", "optim.")) and last(full)[0].isupper() and "swa" not in full:
                if last(full) == "SGD" and keyword(value, "momentum") is None and len(value.args) < 3:
                    continue  # it has no state
                found.setdefault("optimizer", {})[name] = value
            elif last(full) == "GradScaler" and not is_false(keyword(value, "enabled")):
                found.setdefault("loss scaler", {})[name] = value
            elif full.endswith("swa_utils.AveragedModel"):
                found.setdefault("averaged model", {})[name] = value
    return found


def checkpoint_key_mismatch(program: Program, project: Project) -> Iterator[Hit]:
    """A key that a resume looks up only if it is there, and that no save writes: its state is silently lost."""
    written: dict[str, ast.AST] = {}
    for save in _saves(program):
        value = _saved(program, save)
        if not _complete(value):
            return
        keys = _keys(value)
        if not keys and not _is_state(value):
            return
        for key in keys:
            written[key] = save
    for node in program.parents:  # checkpoint["ema"] = ...: added after the dict was written out
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and (added := text_of(node.slice)):
            written.setdefault(added, node)
    if len(written) < 2:
        return
    for scope in program.scopes:
        read, guarded = _lookups(program, scope)
        if len(read.keys() & written.keys()) < 2:
            continue  # somebody else's checkpoint
        for key, node in guarded.items():
            if key in written or key not in read or not any(_restores(program, n) for n in read[key]):
                continue
            writer = next(iter(written.values()))
            others = ", ".join(sorted(written))
            note = f"`{key}` is restored if it is there, and no save writes it (they write {others})."
            part = next((part for word, part in _LOST_BY_KEY if word in key.lower()), None)
            found = hit("checkpoint_key_mismatch", program, node, note[:300], writer, weight=0.85)
            yield replace(found, supports=_LOST[part] if part else ())


def _lookups(program: Program, scope: Scope) -> tuple[dict[str, list[ast.AST]], dict[str, ast.AST]]:
    """(keys read from what torch.load gave, those of them that may be absent), with where they are read."""
    loaded = {n for n, v, _ in scope.bound if isinstance(v, ast.Call) and program.called(v) == "torch.load"}
    read: dict[str, list[ast.AST]] = {}
    guarded: dict[str, ast.AST] = {}
    for node in scope.nodes:
        if isinstance(node, ast.Subscript) and plain(node.value) in loaded:
            if (key := text_of(node.slice)) is not None:
                read.setdefault(key, []).append(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            if plain(node.comparators[0]) in loaded and (key := text_of(node.left)) is not None:
                guarded[key] = node
        elif isinstance(node, ast.Call) and method(node) == "get" and receiver(node) in loaded:
            key = text_of(node.args[0]) if len(node.args) == 1 else None
            if key is not None:
                guarded[key] = node
                read.setdefault(key, []).append(node)
    return read, guarded


def _is_state(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and method(value) == "state_dict"


def _restores(program: Program, node: ast.AST) -> bool:
    """Whether something is restored from a value: `x.load_state_dict(state["x"])`."""
    parent = program.parents.get(node)
    return isinstance(parent, ast.Call) and method(parent) == "load_state_dict"


def wrapped_state_saved(program: Program, project: Project) -> Iterator[Hit]:
    """state_dict() of a wrapped model saved, and loaded into the model before it is wrapped: the keys bear a prefix."""
    words = {"removeprefix", "consume_prefix_in_state_dict_if_present", "unwrap_model", "replace", "startswith"}
    if words & program.words or any_name(program, ["FSDP", "FullyShardedDataParallel"]):
        return
    for scope in program.scopes:
        for name, value, statement in scope.bound:
            if not isinstance(value, ast.Call) or not value.args or plain(value.args[0]) != name:
                continue
            full = program.called(value)
            kind = (
                "module."
                if last(full) in (*_WRAPS, "DataParallel")
                else "_orig_mod."
                if full == "torch.compile"
                else ""
            )
            if not kind or any(isinstance(p, ast.If) for p in program.above(statement)):
                continue
            calls = [c for c in scope.calls if receiver(c) == name]
            saved = [
                c for c in calls if method(c) == "state_dict" and c.lineno > statement.lineno and _in_save(program, c)
            ]
            early = [c for c in calls if method(c) == "load_state_dict" and c.lineno < statement.lineno]
            if saved and early and not is_false(keyword(early[0], "strict")):
                note = f"What is saved here has keys with `{kind}`, and is loaded into the model before it is wrapped."
                yield hit("wrapped_state_saved", program, saved[0], note, early[0], value, weight=0.8)


def _in_save(program: Program, call: ast.Call) -> bool:
    """Whether a state_dict() goes into torch.save, directly, in a dict, or by a name."""
    for parent in program.above(call):
        if isinstance(parent, ast.Call) and program.called(parent) == "torch.save":
            return True
        if isinstance(parent, ast.Assign):
            name = plain(parent.targets[0])
            return any(s.args and plain(s.args[0]) == name for s in _saves(program))
        if isinstance(parent, ast.stmt):
            return False
    return False


def load_without_map_location(program: Program, project: Project) -> Iterator[Hit]:
    """torch.load without map_location on every rank of a GPU program: all of them load onto the GPU that saved."""
    if not _is_distributed(program) or not ("cuda" in program.words or "nccl" in program.texts):
        return
    for call in program.calls:
        if program.called(call) != "torch.load" or len(call.args) > 1 or keyword(call, "map_location") is not None:
            continue
        if any(k.arg is None for k in call.keywords) or _mapped_beside(program, call):
            continue
        if _for_some_ranks(program, project, call, 0):
            continue
        note = "Without map_location every rank loads these tensors onto the GPU that saved them, usually GPU 0."
        yield hit("load_without_map_location", program, call, note, weight=0.6)


def _mapped_beside(program: Program, call: ast.Call) -> bool:
    """Whether the same function loads with map_location as well: the case without it is one that was thought of."""
    return any(
        program.called(c) == "torch.load" and (keyword(c, "map_location") is not None or len(c.args) > 1)
        for c in program.scope_of(call).calls
    )


def load_not_strict(program: Program, project: Project) -> Iterator[Hit]:
    """load_state_dict(strict=False) whose result nobody looks at: what did not fit is silently left out."""
    for call in program.calls:
        if method(call) != "load_state_dict" or not is_false(keyword(call, "strict")):
            continue
        if isinstance(program.parents.get(call), ast.Expr):
            note = "strict=False leaves out what does not fit, and nothing here looks at the keys it returns."
            yield hit("load_not_strict", program, call, note, weight=0.6)


def best_model_settings(program: Program, project: Project) -> Iterator[Hit]:
    """load_best_model_at_end=True with evaluation and saving at different times."""
    for call in program.calls:
        if not last(program.called(call)).endswith("TrainingArguments"):
            continue
        best = keyword(call, "load_best_model_at_end")
        evaluation = text_of(keyword(call, "eval_strategy") or keyword(call, "evaluation_strategy"))
        saving = text_of(keyword(call, "save_strategy")) or "steps"
        if isinstance(best, ast.Constant) and best.value is True and evaluation and saving not in (evaluation, "best"):
            note = f"load_best_model_at_end needs equal strategies; here they are {evaluation!r} and {saving!r}."
            yield hit("best_model_settings", program, call, note, weight=0.9)
