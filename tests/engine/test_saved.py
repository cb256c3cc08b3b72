from __future__ import annotations

from pathlib import Path

import numpy as np
from click.testing import CliRunner
from tests.torch_files import adam, linear, torch_zip

from forensics.cli import main
from forensics.engine.pipeline import Options, analyse
from forensics.engine.saved import beside_findings
from forensics.model import Evidence, Fact, Identity, Observation, Role, Verdict

MISMATCH = """Traceback (most recent call last):
  File "/app/train.py", line 40, in main
    model.load_state_dict(torch.load(path)["model"])
RuntimeError: Error(s) in loading state_dict for Sequential:
	Missing key(s) in state_dict: "0.weight", "0.bias".
	Unexpected key(s) in state_dict: "module.0.weight", "module.0.bias".
"""
DIVERGED = "".join(f"step {n} loss {'nan' if n >= 437 else 2 / n**0.5} lr 0.001\n" for n in range(1, 501))
HEALTHY = "".join(f"step {n} loss {2 / (n + 1):.4f}\n" for n in range(1, 60)) + "Training completed.\n"


def seen(signature: str, step: int | None = None) -> Observation:
    return Observation(
        signature=signature,
        weight=0.9,
        evidence=(Evidence("train.log", 4, 0, "x"),),
        step=step,
        identity=Identity(rank=2),
    )


def facts(path: str, **values: str) -> list[Fact]:
    return [Fact(f"checkpoint.{n}", v, path) for n, v in ({"format": "torch zip"} | values).items()]


def added(found: list[Observation], told: list[Fact]) -> list[tuple[str, str, str]]:
    return [(o.signature, o.evidence[0].file, o.note or "") for o in beside_findings(found, told) if o not in found]


def test_a_state_that_the_checkpoint_lacks_explains_the_resume() -> None:
    told = [
        *facts("ck/step-100.pt", holds="model, optimizer, scheduler, step", step="100"),
        *facts("ck/step-200.pt", holds="model, optimizer, step", step="200"),
        *facts("ck/step-300.pt", holds="model, optimizer, scheduler, step", step="300"),
    ]
    note = "ck/step-200.pt holds model, optimizer, step and no state of a learning rate scheduler"
    assert added([seen("lr-schedule-reset-on-resume", 210)], told) == [
        ("lr-schedule-reset-on-resume", "ck/step-200.pt", note)
    ]
    (_, one) = beside_findings([seen("lr-schedule-reset-on-resume", 210)], told)
    assert (one.step, one.identity.rank) == (210, 2) and one.weight < 0.9
    assert added([seen("lr-schedule-reset-on-resume", 310)], told) == []
    assert added([seen("lr-schedule-reset-on-resume")], told) == []  # which checkpoint it was is not known
    assert added([seen("nan-loss", 210)], told) == []


def test_what_is_not_listed_in_full_lacks_nothing() -> None:
    told = facts("step-200.pt", holds="model, optimizer", step="200", not_listed="too long")
    assert added([seen("lr-schedule-reset-on-resume", 210)], told) == []
    weights = facts("step-200.pt", holds="model", step="200")
    assert added([seen("lr-schedule-reset-on-resume", 210)], weights) == []


def test_weights_that_were_saved_under_a_wrapper_s_names() -> None:
    told = facts("step-200.pt", **{"holds": "model, step", "step": "200", "parameters": "3", "prefix.module.": "3"})
    ((signature, file, note),) = added([seen("resume-weights-not-restored", 201)], told)
    assert (signature, file) == ("resume-weights-not-restored", "step-200.pt")
    assert note == "in step-200.pt 3 of 3 parameter names bear 'module.'"
    assert added([seen("state-dict-prefix-orig-mod")], told) == []


def test_names_in_two_ways_are_context() -> None:
    told = [
        *facts("a.pt", **{"holds": "model", "parameters": "3", "names": "d1", "prefix._orig_mod.": "3"}),
        *facts("b.pt", holds="model", parameters="3", names="d1"),
        *facts("c.pt", holds="model", parameters="3", names="d2"),
    ]
    ((signature, file, note),) = added([], told)
    assert (signature, file) == ("checkpoint-names-differ", "a.pt")
    assert "in b.pt none bears '_orig_mod.'" in note
    assert added([], told[:5] + told[9:]) == []


def test_a_resume_from_weights_alone_is_context() -> None:
    told = facts("step-200.pt", holds="model, step", step="200")
    assert [a[:2] for a in added([seen("run-resumed", 200)], told)] == [("checkpoint-without-optimizer", "step-200.pt")]
    assert added([seen("run-resumed", 260)], told) == []
    assert added([], told) == []


def test_a_finite_checkpoint_is_one_to_go_back_to() -> None:
    told = facts("step-400.pt", holds="model", step="400", finite="12")
    ((signature, file, note),) = added([seen("nan-loss", 437)], told)
    assert (signature, file) == ("nan-loss", "step-400.pt")
    assert "can go on from step 400" in note
    assert added([seen("nan-loss", 437)], facts("step-500.pt", holds="model", step="500", finite="12")) == []


def test_a_failed_load_names_the_file_with_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(MISMATCH)
    (tmp_path / "ddp.pt").write_bytes(torch_zip({"model": linear("module."), "step": 4}))
    (root, *others) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert root.name == "state-dict-prefix-module" and not others
    assert root.evidence[0].file == "train.log"
    assert any(e.file == "ddp.pt" and "3 of 3 parameter names" in e.text for e in root.evidence)


def save(folder: Path, step: int, bad: bool) -> None:
    moment = np.zeros((4, 3), "f4")
    moment[2, 1] = float("nan") if bad else 1.0
    whole = {"model": linear(), "optimizer": adam(exp_avg_sq_0=moment), "step": step}
    (folder / f"step-{step}.pt").write_bytes(torch_zip(whole))


def test_deep_names_checkpoint_and_parameter_beside_the_nan_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(DIVERGED)
    for step in (100, 200, 300, 400):
        save(tmp_path, step, step >= 400)
    shallow = analyse([str(tmp_path)])
    (root,) = shallow.of_role(Role.ROOT)
    assert root.name == "nan-loss" and not any("step-400.pt" in n for n in root.notes)
    (root,) = analyse([str(tmp_path)], Options(deep=True)).of_role(Role.ROOT)
    assert (root.name, root.step) == ("nan-loss", 437)
    (note,) = [n for n in root.notes if "step-400.pt" in n]
    assert note.startswith(
        "already before step 437: step-400.pt is not finite: optimizer.state.0.exp_avg_sq (of 0.weight)"
    )
    assert "step-300.pt, the one before it, is finite" in note


def test_deep_alone_finds_a_checkpoint_that_is_not_finite(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(HEALTHY)
    save(tmp_path, 100, False)
    assert analyse([str(tmp_path)], Options(deep=True)).verdict is Verdict.HEALTHY
    save(tmp_path, 200, True)
    result = CliRunner().invoke(main, ["analyze", "--deep", str(tmp_path)])
    assert result.exit_code == 1
    assert "A checkpoint holds NaN or infinite values" in result.output
    assert "step-200.pt" in result.output


def test_a_missing_shard_is_told_where_no_load_failed(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt" / "global_step200"
    folder.mkdir(parents=True)
    for rank in (0, 1, 3):
        (folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").write_bytes(torch_zip(linear()))
    (tmp_path / "train.log").write_text("".join(f"step {n} loss {3 - n / 100}\n" for n in range(50)))
    diagnosis = analyse([str(tmp_path)], Options(threads=1))
    assert diagnosis.verdict == "healthy"
    (told,) = [f for f in diagnosis.findings if f.name == "checkpoint-corrupt"]
    assert told.role == "context"
    assert "failed to load" in told.why
