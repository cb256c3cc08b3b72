"""A rank that finds no file of its own in a checkpoint of DeepSpeed's: one cause, and not two of one line."""

from __future__ import annotations

from pathlib import Path

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

RAISED = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/opt/lib/deepspeed/runtime/engine.py", line 2800, in load_checkpoint\n'
    "[rank2]:     sd = torch.load(path)\n"
    "[rank2]: FileNotFoundError: [Errno 2] No such file or directory: 'ckpt/global_step300/{}'\n"
)


def roots(folder: Path, name: str) -> list[str]:
    (folder / "train.log").write_text(
        "[rank2]: [Torch] Loading checkpoint from ckpt/global_step300/mp_rank_00_model_states.pt...\n"
        + RAISED.format(name)
    )
    return [f.name for f in analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)]


def test_a_missing_shard_of_zero_is_one_cause(tmp_path: Path) -> None:
    assert roots(tmp_path, "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt") == ["deepspeed-checkpoint-unusable"]


def test_any_other_file_is_not_deepspeeds(tmp_path: Path) -> None:
    assert roots(tmp_path, "model.pt") == ["resume-checkpoint-not-found"]
