"""Checks of settings that decide which checkpoints are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forensics.engine.configs.view import CONTEXT, SUPPORT, Sign, View, is_set, is_true, present, whole

_FOLDER = re.compile(r"(?P<parent>^|.*/)(?P<name>checkpoint-\d{1,12})/")


def best_model_settings(view: View) -> Iterator[Sign]:
    """load_best_model_at_end with saving and evaluation that do not meet."""
    best = view.argument("load_best_model_at_end")
    if not is_true(best):
        return
    save, evaluate = view.argument("save_strategy"), view.argument("eval_strategy", "evaluation_strategy")
    if save is not None and evaluate is not None and save.value != evaluate.value:
        text = f"saving by {save.value}, evaluation by {evaluate.value}"
        yield Sign(present(best, save, evaluate), f"load_best_model_at_end with {text}", SUPPORT)
    saves, evaluates = view.argument("save_steps"), view.argument("eval_steps")
    a, b = whole(saves), whole(evaluates)
    if save is not None and save.value == "steps" and a and b and a % b:
        text = f"saving every {a} steps, evaluation every {b}"
        yield Sign(present(best, saves, evaluates), f"load_best_model_at_end with {text}", SUPPORT)


def best_checkpoint_removed(view: View) -> Iterator[Sign]:
    """trainer_state.json names a best checkpoint that is not here, while others of its kind are.

    Whoever takes the run's result wants to know: the weights of the best evaluation are gone.
    """
    here: dict[str, set[str]] = {}
    for path in view.sources:
        if m := _FOLDER.match(path):
            here.setdefault(m["parent"], set()).add(m["name"])
    for fact in reversed(view.all("trainer.best_model_checkpoint")):
        name = re.split(r"[/\\]", fact.value.rstrip("/\\"))[-1]
        own = _FOLDER.match(fact.source)
        parent = own["parent"] if own else fact.source.rpartition("/")[0] + "/" if "/" in fact.source else ""
        others = here.get(parent, set())
        if is_set(fact) and re.fullmatch(r"checkpoint-\d{1,12}", name) and len(others) > 1 and name not in others:
            limit = view.argument("save_total_limit")
            kept = f" (save_total_limit = {limit.value})" if limit is not None and is_set(limit) else ""
            yield Sign(present(fact, limit), f"the best checkpoint, {name}, is not here{kept}", CONTEXT)
            return
