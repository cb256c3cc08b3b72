from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from samples import HEALTHY, diagnosis, finding

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role
from forensics.report.fingerprint import fingerprint, template
from forensics.report.redaction import redact_diagnosis

LOG = """\
{time} {host} pid={pid} [rank{rank}]: step {step} loss 1.25
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "{path}/train.py", line {line}, in encode
[rank{rank}]:     row["text"]
[rank{rank}]: {error}
"""
USUAL = {"time": "2026-11-27 20:49:24", "host": "dgx17", "pid": 17, "rank": 2, "step": 40, "path": "/home/jd/a", "line": 33,
         "error": "RuntimeError: size 512 of /home/jd/a/x.bin at 0x7f11aa22 does not fit float16"}  # fmt: skip


def _of(folder: Path, **given: object) -> str:
    file = folder / f"{given.pop('name', 'out')}.log"
    file.write_text(LOG.format(**{**USUAL, **given}))
    found = fingerprint(analyse([str(file)], Options(threads=1)))
    assert found
    return found


@pytest.mark.parametrize(
    "given",
    [
        {"host": "gpu-3.cluster.example"}, {"rank": 7}, {"step": 90_000}, {"time": "2025-01-02 03:04:05"}, {"pid": 99_999},
        {"path": "/mnt/scratch/q/b", "line": 51}, {"name": "other"},
        {"error": "RuntimeError: size 64 of /data/y.bin at 0x1100ff22 does not fit float16"},
    ],
)  # fmt: skip
def test_the_same_failure_has_one(tmp_path: Path, given: dict[str, object]) -> None:
    assert _of(tmp_path, **given) == _of(tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: size 512 of /home/jd/a/x.bin at 0x7f11aa22 does not fit float16",
        "RuntimeError: size 512 of /home/jd/a/x.bin at 0x7f11aa22 does not fit bfloat16",
        "RuntimeError: the reader is closed",
    ],
)
def test_another_failure_has_another(tmp_path: Path, error: str) -> None:
    assert _of(tmp_path, error=error) != _of(tmp_path)


SHAPES = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/home/jd/a/train.py", line 88, in main
[rank{rank}]:     loss = model(x)
[rank{rank}]:   File "{path}/{file}", line {line}, in {function}
[rank{rank}]:     h = self.fc1(x)
[rank{rank}]:   File "/opt/v/lib/python3.{minor}/site-packages/torch/nn/modules/linear.py", line 117, in forward
[rank{rank}]:     return F.linear(input, self.weight, self.bias)
[rank{rank}]: {error}
"""
MISFIT = "RuntimeError: mat1 and mat2 shapes cannot be multiplied ({}x768 and 512x1024)"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.00 GiB."


def _raised(folder: Path, error: str = MISFIT.format(32), **given: object) -> str:
    usual = {"rank": 0, "path": "/home/jd/a", "file": "encoder.py", "line": 41, "function": "forward", "minor": 11}
    file = folder / "out.log"
    file.write_text("step 3 loss 1.25\n" + SHAPES.format(**{**usual, **given}, error=error))
    found = analyse([str(file)], Options(threads=1)).fingerprint
    assert found
    return found


@pytest.mark.parametrize("given", [{"file": "decoder.py"}, {"function": "decode"}])
def test_an_exception_that_the_catalogue_knows_is_told_apart_by_where_the_user_s_code_raised_it(
    tmp_path: Path, given: dict[str, object]
) -> None:
    assert _raised(tmp_path) != _raised(tmp_path, **given)
    assert _raised(tmp_path, OOM.format(2)) == _raised(tmp_path, OOM.format(8), **given)  # may come anywhere


@pytest.mark.parametrize(
    "given", [{"rank": 3}, {"path": "/scratch/bob"}, {"line": 99}, {"minor": 12}, {"error": MISFIT.format(8)}]
)
def test_and_not_by_what_differs_between_runs(tmp_path: Path, given: dict[str, Any]) -> None:
    assert _raised(tmp_path) == _raised(tmp_path, **given)


def test_it_outlives_redaction_and_a_run_without_a_cause_has_none() -> None:
    made = diagnosis(finding(node="dgx17"), fingerprint="00112233aabbccdd")
    assert redact_diagnosis(made).fingerprint == made.fingerprint
    assert fingerprint(HEALTHY) is None


def test_signatures_tell_apart_and_places_do_not() -> None:
    one = fingerprint(diagnosis(finding(captures={"device": "2", "tried": "2.00 GiB", "module": "flash_attn"})))
    assert one == fingerprint(
        diagnosis(finding(ranks=(9,), captures={"device": "0", "tried": "512 MiB", "module": "flash_attn"}))
    )
    assert one != fingerprint(diagnosis(finding(captures={"module": "apex"})))
    assert one != fingerprint(diagnosis(finding(name="host-oom", captures={"module": "flash_attn"})))


def test_without_anything_known_what_follows_tells_apart() -> None:
    vague = finding(name="insufficient-evidence")
    one, two = (diagnosis(vague, finding(id="f2", name=name, role=Role.CASCADE)) for name in ("a", "b"))
    assert fingerprint(one) != fingerprint(two)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("'text'", "'text'"),
        ("got [2, 3, 4] and 7x9 of float16", "got [#] and # of float16"),
        ("open /a/b/c.json at 10.0.0.7:29500", "open <path>.json at #"),
        ("id 3f2b8c1d-7a64-4e19-9b05-d2c6e8f01a37 0x7ff1 1.5e-3 2.00 GiB", "id # # # #"),
    ],
)
def test_what_differs_between_runs_goes(text: str, shape: str) -> None:
    assert template(text) == shape


def test_a_collective_is_the_same_as_a_watchdog_and_as_a_recorder_write_it() -> None:
    def of(op: str) -> str | None:
        return fingerprint(diagnosis(finding(name="collective-timeout", captures={"op": op, "seq": "25"})))

    assert of("ALLREDUCE") == of("all_reduce") and of("_ALLGATHER_BASE") == of("_allgather_base")
    assert of("ALLREDUCE") != of("ALLGATHER")
