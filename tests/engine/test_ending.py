"""How a log ends that neither fails nor says that it ended, and what a cut file or a pointer to nothing means then."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role, Verdict
from forensics.parsers.checkpoints.series import before, numbered

STEPS = "".join(f"2026-03-01 10:00:{n:02},000 INFO step {n} loss {2 - n / 100:.3f}\n" for n in range(1, 41))
LIMIT = "slurmstepd: error: *** STEP 7.0 ON n17 CANCELLED AT 2026-03-01T10:00:41 DUE TO TIME LIMIT ***\n"
LOAD = """\
[rank2]: Traceback (most recent call last):
[rank2]:   File "/app/train.py", line 50, in <module>
[rank2]:     engine.load_checkpoint("ckpt")
[rank2]:   File "/venv/lib/python3.11/site-packages/deepspeed/runtime/engine.py", line 2833, in _load_checkpoint
[rank2]:     sd_loader = SDLoaderFactory.get_sd_loader(ckpt_list, checkpoint_engine=self.checkpoint_engine)
[rank2]:   File "/venv/lib/python3.11/site-packages/deepspeed/runtime/state_dict_factory.py", line 176, in check_ckpt_list
[rank2]:     assert len(self.ckpt_list) > 0
[rank2]: AssertionError
"""


def run(folder: Path, log: str, **files: bytes) -> Diagnosis:
    (folder / "train.log").write_text(log)
    for name, data in files.items():
        path = folder / name.replace("__", "/").replace("_pt", ".pt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return analyse([str(folder)], Options(threads=1))


def whole() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr("m/data/0", bytes(4000))
        archive.writestr("m/version", b"3\n")
    return made.getvalue()


def named(found: Diagnosis, name: str) -> Finding:
    return next(f for f in found.findings if f.name == name)


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-01 10:02:00,000 FATAL tokenizer server refused vocabulary revision 3, aborting run",
        "2026-03-01 10:02:00,000 [CRITICAL] trainer: lost the lease",
        "ERROR:trainer:giving up after 3 tries",
    ],
)
def test_a_log_that_ends_in_an_unknown_error_is_not_called_healthy(tmp_path: Path, line: str) -> None:
    found = run(tmp_path, STEPS + line + "\n")
    assert found.verdict is Verdict.UNKNOWN and line.rpartition(" ")[2] in found.summary
    assert run(tmp_path, STEPS + line + "\n" + STEPS).verdict is Verdict.HEALTHY


def test_an_error_that_shows_something_only_where_it_comes_often_is_not_unknown(tmp_path: Path) -> None:
    line = "2026-03-01 10:02:00,000 ERROR The testing results of the whole dataset is empty.\n"
    found = run(tmp_path, STEPS + line)
    assert found.verdict is Verdict.HEALTHY and not found.of_role(Role.ROOT)
    assert [f.name for f in run(tmp_path, STEPS + 5 * line).of_role(Role.ROOT)] == ["no-detections"]


BAR = "2026-03-01 10:02:00,000 CRITICAL lost the lease\n {}%|████      | {}/100 [02:00<03:00,  3.00s/it]\n"


def test_a_bar_that_is_drawn_again_is_no_progress_after_an_error(tmp_path: Path) -> None:
    assert run(tmp_path, STEPS + BAR.format(40, 40)).verdict is Verdict.UNKNOWN
    assert run(tmp_path, STEPS + BAR.format(43, 43)).verdict is Verdict.HEALTHY


OPEN = 'Traceback (most recent call last):\n  File "/app/train.py", line 50, in main\n    step()\n'


@pytest.mark.parametrize("rest", ["", "\nsomething without the form of an exception\n"])
def test_a_log_that_ends_in_half_a_traceback_is_not_called_healthy(tmp_path: Path, rest: str) -> None:
    found = run(tmp_path, STEPS + OPEN + rest)
    assert found.verdict is Verdict.UNKNOWN and "train.log:41" in found.summary and "step 40" in found.summary
    assert found.coverage[0].reason == "no last line found of the traceback at line 41"


@pytest.mark.parametrize("after", [STEPS, "Training completed.\n"])
def test_half_a_traceback_that_training_outlived_is_nothing(tmp_path: Path, after: str) -> None:
    assert run(tmp_path, STEPS + OPEN + "odd words\n" + after).verdict is Verdict.HEALTHY


def test_what_the_interpreter_ignored_needs_no_last_line(tmp_path: Path) -> None:
    ignored = "Exception ignored in: <function Pool.__del__ at 0x7f0000000000>\n" + OPEN
    assert run(tmp_path, STEPS + ignored).verdict is Verdict.HEALTHY


def test_without_a_step_no_progress_is_claimed(tmp_path: Path) -> None:
    assert run(tmp_path, "loading\n" + OPEN).summary.startswith("No step of training is on record. The traceback")


def test_of_a_log_that_just_ends_only_its_end_is_said(tmp_path: Path) -> None:
    found = run(tmp_path, STEPS)
    assert found.verdict is Verdict.HEALTHY
    assert found.summary == (
        "Training came to step 40 (2026-03-01 10:00:40) and shows no failure; nothing says that it ended."
    )
    untimed = run(tmp_path, "".join(f"step {n} loss {2 - n / 100:.3f}\n" for n in range(1, 41)))
    assert "step 40 and shows" in untimed.summary and "goes on" not in untimed.summary


@pytest.mark.parametrize("word", ["JOB 7", "STEP 7.0", "STEP 7.batch"])
def test_slurm_names_the_node_of_a_step(tmp_path: Path, word: str) -> None:
    found = run(tmp_path, STEPS + LIMIT.replace("STEP 7.0", word))
    assert (found.findings[0].name, found.findings[0].node) == ("scheduler-time-limit", "n17")


def test_a_pointer_to_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    files = {"ckpt__latest": b"global_step300", "ckpt__global_step200__mp_rank_00_model_states_pt": whole()}
    found = run(tmp_path, STEPS + LOAD, **files)
    root = found.findings[0]
    assert (root.name, root.ranks, root.step) == ("checkpoint-latest-dangling", (2,), 40)
    assert (root.time_source, root.role) == ("train.log", Role.ROOT)
    assert "'global_step300', which is not here; here is global_step200" in root.notes[0]
    assert not any(f.name == "checkpoint-corrupt" for f in found.findings)


def test_such_a_pointer_is_no_trouble_where_nothing_was_loaded(tmp_path: Path) -> None:
    other = LOAD.replace("load_checkpoint", "forward").replace("check_ckpt_list", "forward")
    for log in (STEPS, STEPS + other):
        found = run(tmp_path, log, ckpt__latest=b"global_step300")
        assert named(found, "checkpoint-latest-dangling").role is Role.CONTEXT


def test_a_save_that_the_end_cut_off_is_explained_by_it(tmp_path: Path) -> None:
    saves = {"step_20_pt": whole(), "step_40_pt": whole()[:3000]}
    found = run(tmp_path, STEPS + LIMIT, **saves)
    cut = named(found, "checkpoint-save-cut")
    assert (found.findings[0].name, cut.role, cut.explained_by) == ("scheduler-time-limit", Role.CASCADE, "f1")
    assert found.findings[0].count == 1
    assert any("step_20.pt, the save before, is whole" in note for note in found.findings[0].notes)


def test_a_cut_save_that_training_outlived_is_context(tmp_path: Path) -> None:
    saves = {"step_10_pt": whole(), "step_20_pt": whole()[:3000]}
    for log in (STEPS, STEPS + LIMIT):
        assert named(run(tmp_path, log, **saves), "checkpoint-save-cut").role is Role.CONTEXT


def test_a_cut_file_that_is_not_the_newest_is_no_interrupted_save(tmp_path: Path) -> None:
    found = run(tmp_path, STEPS + LIMIT, step_20_pt=whole()[:3000], step_40_pt=whole())
    assert named(found, "checkpoint-corrupt").role is Role.CONTEXT
    assert not any(f.name == "checkpoint-save-cut" for f in found.findings)


def test_numbers_of_ranks_and_shards_count_no_saves() -> None:
    assert numbered("ckpt/mp_rank_01_model_states.pt")[1] == ()
    assert numbered("model-00001-of-00002.safetensors")[1] == ()
    assert numbered("epoch=3-step=200.ckpt")[1] == (3, 200)
    shards = [f"global_step{s}/zero_pp_rank_{r}_mp_rank_00_optim_states.pt" for s in (100, 200) for r in (0, 1)]
    assert before(shards[3], shards) == shards[1]
    assert before(shards[1], shards) is None


TABLE = """\
E0301 10:01:02.203000 2201 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code}) local_rank: 2 (pid: 7781) of binary: /opt/venv/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:01:02
  host      : node-7
  rank      : 2 (local_rank: 2)
  exitcode  : {code} (pid: 7781)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
SHARDS = "2026-03-01 10:01:00,120 - ERROR - shards - manifest lists 512 shards, 509 present: refusing to continue\n"


def test_of_an_end_without_a_cause_the_launcher_and_the_last_error_are_told(tmp_path: Path) -> None:
    root = run(tmp_path, STEPS + SHARDS + TABLE.format(code=3)).findings[0]
    assert (root.name, root.ranks, root.node) == ("insufficient-evidence", (2,), "node-7")
    assert root.evidence[0].line == 41 and "rank 2 end first" in root.notes[0] and "509 present" in root.notes[0]


@pytest.mark.parametrize(("minute", "named"), [("10:00:50", (9,)), ("10:01:02", None)])
def test_of_several_launchers_tables_the_first_counts_where_the_others_tell_of_aborts(
    tmp_path: Path, minute: str, named: tuple[int, ...] | None
) -> None:
    table = TABLE.replace("10:01:02\n", "{time}\n").replace("rank      : 2", "rank      : {rank}")
    table = table.replace("7781", "{pid}").replace("node-7", "{host}")
    rows = ((9, 1, minute), (2, -6, "10:01:02"), (14, -6, "10:01:03"))
    for rank, code, time in rows:
        text = table.format(rank=rank, code=code, time=time, pid=7700 + rank, host=f"trn-{rank // 4}")
        (tmp_path / f"agent-{rank // 4}.log").write_text(text)
    root = analyse([str(tmp_path)], Options(threads=1)).findings[0]
    assert (root.name, root.ranks) == ("insufficient-evidence", named)
    assert named is None or root.node == "trn-2"


def test_an_exit_code_that_any_exception_gives_names_no_rank(tmp_path: Path) -> None:
    root = run(tmp_path, STEPS + TABLE.format(code=1)).findings[0]
    assert (root.name, root.ranks) == ("insufficient-evidence", None)
    assert "exit code 1" in root.notes[0] and "last error" not in root.notes[0]


def test_an_error_that_training_outlived_is_not_told(tmp_path: Path) -> None:
    root = run(tmp_path, SHARDS + STEPS + TABLE.format(code=3)).findings[0]
    assert all("manifest" not in e.text for e in root.evidence) and "manifest" not in " ".join(root.notes)


@pytest.mark.parametrize(
    ("name", "verdict"), [("samples/step_500.txt", Verdict.HEALTHY), ("worker.err", Verdict.UNKNOWN)]
)
def test_a_text_that_the_run_wrote_ends_no_log(tmp_path: Path, name: str, verdict: Verdict) -> None:
    (tmp_path / "nohup.out").write_text("".join(f"step {n} loss {3 - n / 100:.3f}\n" for n in range(40)))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("starting\nERROR: the frobnicator is not aligned\n")
    assert analyse([str(tmp_path)], Options(cache=False)).verdict is verdict
