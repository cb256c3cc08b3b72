"""train() and eval(), and gradients during evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from forensics.sources.checks.losses import calls_backward, without_grad
from forensics.sources.hits import Hit, hit
from forensics.sources.program import (
    LOOPS,
    Program,
    Scope,
    calls_in,
    is_false,
    method,
    names_in,
    plain,
    receiver,
)
from forensics.sources.project import Project

_TRAINERS = ("lightning", "pytorch_lightning", "ignite")
_EVALUATES = ("eval", "valid", "test", "infer")


def _switches_to_training(call: ast.Call) -> bool:
    """`model.train()`, `model.train(mode)`; `train(model)` is a function of the program."""
    return method(call) == "train" and bool(receiver(call)) and not (call.args and is_false(call.args[0]))


def _switches_to_evaluation(call: ast.Call) -> bool:
    if method(call) == "eval" and isinstance(call.func, ast.Attribute) and not call.args:
        return True
    return method(call) == "train" and bool(call.args) and is_false(call.args[0])


def _reached(program: Program, project: Project, calls: list[ast.Call]) -> list[tuple[Program, Scope]]:
    """The functions that some calls reach, one deep and two deep."""
    found: dict[int, tuple[Program, Scope]] = {}
    todo = [(program, call) for call in calls]
    for _ in range(2):
        fresh = []
        for home, call in todo:
            reached = project.resolve(home, call)
            if reached is not None and id(reached[1].node) not in found:
                found[id(reached[1].node)] = reached
                fresh += [(reached[0], inner) for inner in reached[1].calls]
        todo = fresh
    return list(found.values())


def eval_without_train(program: Program, project: Project) -> Iterator[Hit]:
    """A loop that trains and evaluates, and nothing in it that switches back to train() afterwards."""
    if any(program.uses(name) for name in _TRAINERS):
        return
    for scope in program.scopes:
        for loop in (n for n in scope.nodes if isinstance(n, LOOPS)):
            if any(isinstance(p, LOOPS) for p in program.loops_around(loop)):
                continue
            calls = calls_in(loop)
            inner = _reached(program, project, calls)
            everything = [*((program, c) for c in calls), *((p, c) for p, s in inner for c in s.calls)]
            names = {method(c) for _, c in everything}
            if "backward" not in names:
                continue
            if any(_switches_to_training(c) for _, c in everything):
                continue
            evaluated = [
                (p, c)
                for p, c in everything
                if _switches_to_evaluation(c) and not _teacher(c) and (p is program or _of_argument(p, c))
            ]
            if not evaluated or _unresolved(program, project, calls):
                continue
            home, call = evaluated[0]
            if home is program:
                note = "After this the model stays in eval(): the loop trains on without dropout, statistics frozen."
                yield hit("eval_without_train", program, call, note, loop, span=loop, weight=0.85)
            else:
                note = "The loop evaluates, and nothing in it calls train() again: it trains on in eval() mode."
                yield hit("eval_without_train", program, loop, note, weight=0.7)


def _of_argument(program: Program, call: ast.Call) -> bool:
    """Whether the model that is switched is one that its function was given."""
    node = program.scope_of(call).node
    return not isinstance(node, ast.Module) and receiver(call) in {a.arg for a in node.args.args} - {"self"}


def _teacher(call: ast.Call) -> bool:
    """A model that is only ever evaluated: a teacher, an average, a frozen part, a metric's network."""
    name = receiver(call).lower()
    frozen = ("teacher", "ema", "target", "vae", "frozen", "backbone", "ref", "encoder", "critic", "inception", "lpips")
    return any(word in name for word in frozen)


def _unresolved(program: Program, project: Project, calls: list[ast.Call]) -> bool:
    """Whether functions that are called with the model lie outside of these programs, and may call train()."""
    for call in calls:
        if not isinstance(call.func, ast.Name) or project.resolve(program, call) is not None:
            continue
        if call.func.id in ("print", "len", "isinstance", "getattr", "hasattr", "type", "str"):
            continue
        if any("model" in plain(a).lower() or "net" in plain(a).lower() for a in call.args if plain(a)):
            return True
    return False


def _evaluation_loops(program: Program) -> Iterator[tuple[Scope, ast.For, ast.Call]]:
    """(function, loop over a loader, call of the model) in functions that are named after evaluation."""
    for scope in program.scopes:
        if not scope.name or not scope.name.lower().lstrip("_").startswith(_EVALUATES) or calls_backward(scope.node):
            continue
        if any(method(c) == "backward" for c in scope.calls) or "grad" in {
            w for c in scope.calls for w in names_in(c.func)
        }:
            continue
        for loop in (n for n in scope.nodes if isinstance(n, ast.For)):
            words = {w.lower() for w in names_in(loop.iter)}
            if not any(w.endswith(("loader", "dataloader", "dl", "iterator")) for w in words):
                continue
            models = [c for c in calls_in(loop.body) if _is_model(plain(c.func))]
            if models:
                yield scope, loop, models[0]
                break


def _is_model(name: str) -> bool:
    return name in ("model", "net", "self.model", "self.net", "network", "self.network", "self.module")


def evaluation_in_training_mode(program: Program, project: Project) -> Iterator[Hit]:
    """An evaluation loop in a program that trains and never calls eval()."""
    if any(program.uses(name) for name in (*_TRAINERS, "deepspeed")):
        return
    if "backward" not in program.words or any(_switches_to_evaluation(c) for c in program.calls):
        return
    if not any(_switches_to_training(c) for c in program.calls) and not _has_modes(program):
        return
    for scope, loop, model in _evaluation_loops(program):
        if any(
            "eval" in {method(c) for c in p_scope.calls} for _, p_scope in _reached(program, project, list(scope.calls))
        ):
            continue
        note = "The model is evaluated in training mode: nothing calls eval(), so dropout and batch statistics are on."
        yield hit("evaluation_in_training_mode", program, model, note, loop, weight=0.8)


def _has_modes(program: Program) -> bool:
    """Whether the program defines layers for which the mode makes a difference."""
    return any(word.startswith(("Dropout", "BatchNorm")) for word in program.words)


def evaluation_with_gradients(program: Program, project: Project) -> Iterator[Hit]:
    """An evaluation loop without no_grad(): it keeps the graph of each batch, and of what it collects of all."""
    if any(program.uses(name) for name in _TRAINERS):
        return
    if {"no_grad", "inference_mode", "set_grad_enabled"} & program.words:
        return
    for scope, loop, model in _evaluation_loops(program):
        if without_grad(program, model) or not any(_switches_to_evaluation(c) for c in scope.calls):
            continue
        callers = project.callers.get(id(scope.node), [])
        if any(without_grad(p, c) for p, c in callers) or any(p is not program for p, _ in callers):
            continue
        note = "Evaluation keeps graphs for a backward pass that never comes: put it under torch.no_grad()."
        yield hit("evaluation_with_gradients", program, model, note, loop, span=loop, weight=0.7)
