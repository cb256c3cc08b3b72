"""Checks of noise schedules: what a diffusion model was trained with against what it is sampled with."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.engine.configs.view import Sign, View, is_set, is_true
from forensics.model import Fact

# What both must have alike, and how programs name it among their arguments (diffusers' examples, kohya's scripts).
_SHARED = {
    "prediction_type": ("prediction_type",),
    "beta_schedule": ("beta_schedule", "ddpm_beta_schedule"),
    "num_train_timesteps": ("num_train_timesteps", "ddpm_num_steps"),
}
# Pipelines have further schedules under names of their own (low_res_scheduler, image_noising_scheduler).
_FOLDER = "scheduler"


def noise_schedules(view: View) -> Iterator[Sign]:
    """A scheduler_config.json states another noise schedule or prediction type than the training's arguments.

    Also where two of them, such as those of a base model and of what was trained from it, do not state the same.
    """
    for name, arguments in _SHARED.items():
        stated = [f for f in view.all(f"noise_schedule.{name}") if is_set(f) and _is_main(f.source)]
        trained = _trained(view, name, arguments)
        other = next((f for f in stated if trained is not None and f.value != trained[1]), None)
        if trained is not None and other is not None:
            fact, value = trained
            text = f"{name} is {value} in the training's arguments, and {other.value} in {other.source}"
            yield Sign((other, fact), text)
        elif trained is None and len({f.value for f in stated}) > 1:
            first, second = stated[0], next(f for f in stated if f.value != stated[0].value)
            text = f"{name} is {first.value} in {first.source}, and {second.value} in {second.source}"
            yield Sign((first, second), text)


def _trained(view: View, name: str, arguments: tuple[str, ...]) -> tuple[Fact, str] | None:
    """What the arguments of the training say, and the value that this is in a scheduler_config.json."""
    if name == "prediction_type" and is_true(fact := view.argument("v_parameterization")) and fact is not None:
        return fact, "v_prediction"
    fact = view.argument(*arguments)
    return (fact, fact.value) if fact is not None and is_set(fact) else None


def _is_main(file: str) -> bool:
    folder = file.rpartition("/")[0].rpartition("/")[2]
    return folder in ("", _FOLDER) or not folder.endswith(_FOLDER)
