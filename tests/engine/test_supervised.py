"""Deaths that only a supervisor tells of: never healthy, and no more is said than what it states."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict

INSPECT = """[
    {
        "Id": "3f0d",
        "State": {
            "Status": "exited",
            "OOMKilled": false,
            "ExitCode": %d,
            "Error": "",
            "StartedAt": "2026-11-17T03:14:00.123Z",
            "FinishedAt": "2026-11-17T03:16:02.991Z"
        }
    }
]
"""
POD = """apiVersion: v1
kind: Pod
metadata:
  name: w-2
spec:
  nodeName: gke-a3-1
status:
  phase: %s
  containerStatuses:
  - name: pytorch
    state:
      terminated:
        exitCode: %d
        finishedAt: "2026-11-17T03:16:03Z"
        reason: %s
"""
POD_JSON = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w-2"},"status":{"phase":"Failed","containerStatuses":'
    '[{"name":"pytorch","state":{"terminated":{"exitCode":137,"reason":"Error","finishedAt":"2026-11-17T03:16:03Z"}}}]}}\n'
)
PS = """CONTAINER ID   IMAGE     COMMAND             CREATED       STATUS                      PORTS     NAMES
3f0d11223344   train:1   "python train.py"   2 hours ago   Exited (137) 3 minutes ago            train-1
"""


def diagnosed(folder: Path, name: str, text: str) -> Diagnosis:
    steps = [f"2026-11-17 03:15:{n:02d},000 - INFO - step {n} | loss {3 - n / 100:.3f}" for n in range(1, 31)]
    (folder / "train.log").write_text("\n".join(steps) + "\n")
    (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


@pytest.mark.parametrize(
    ("name", "text", "root", "verdict"),
    [
        ("inspect.json", INSPECT % 137, "sigkill-unknown-sender", Verdict.FAILED),
        ("inspect.json", INSPECT % 143, "external-sigterm", Verdict.INTERRUPTED),
        ("inspect.json", INSPECT % 139, "rank-segfault", Verdict.FAILED),
        ("inspect.json", INSPECT % 1, "insufficient-evidence", Verdict.FAILED),
        ("pod.yaml", POD % ("Failed", 137, "Error"), "sigkill-unknown-sender", Verdict.FAILED),
        ("pod.yaml", POD % ("Failed", 137, "OOMKilled"), "host-oom-cgroup", Verdict.FAILED),
        ("pod.yaml", POD % ("Failed", 2, "Error"), "insufficient-evidence", Verdict.FAILED),
        ("pod.json", POD_JSON, "sigkill-unknown-sender", Verdict.FAILED),
        ("docker-ps.txt", PS, "sigkill-unknown-sender", Verdict.FAILED),
    ],
)
def test_a_death_that_only_a_supervisor_tells_of(
    tmp_path: Path, name: str, text: str, root: str, verdict: Verdict
) -> None:
    found = diagnosed(tmp_path, name, text)
    assert (found.verdict, [f.name for f in found.of_role(Role.ROOT)]) == (verdict, [root])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("inspect.json", INSPECT % 0),
        ("pod.yaml", POD % ("Succeeded", 0, "Completed")),
        ("docker-ps.txt", PS.replace("(137)", "(0)")),
        (
            "journal.txt",
            "Nov 17 03:15:20 n1 systemd[1]: node_exporter.service: Main process exited, code=killed, status=9/KILL\n",
        ),
    ],
)
def test_what_a_supervisor_says_of_an_end_that_was_none_of_a_failure(tmp_path: Path, name: str, text: str) -> None:
    assert diagnosed(tmp_path, name, text).verdict is Verdict.HEALTHY


EVENTS = """\
LAST SEEN   TYPE      REASON    OBJECT            MESSAGE
41m         Warning   Evicted   pod/train-0-a     The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi.
"""


def test_a_pod_that_another_replaced_was_evicted_when_its_log_ends(tmp_path: Path) -> None:
    def steps(minute: int, first: int) -> str:
        return "".join(f"2026-11-20T10:{minute}:{i:02}Z step {first + i} loss {3 - i / 50:.2f}\n" for i in range(50))

    (tmp_path / "events.txt").write_text(EVENTS)
    (tmp_path / "train-0-a.log").write_text(steps(10, 0))
    last = "2026-11-20T10:21:30Z Training complete\n"
    (tmp_path / "train-0-b.log").write_text(
        "2026-11-20T10:20:00Z Loaded checkpoint at step 40\n" + steps(21, 40) + last
    )
    found = analyse([str(tmp_path)], Options(threads=1))
    assert found.verdict is Verdict.RECOVERED and found.of_role(Role.ROOT)[0].name == "pod-evicted"
    (tmp_path / "train-0-b.log").unlink()
    assert analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)[0].name == "pod-evicted"
