"""The kernel's memory killer: blocks of several kernels read as one event, in part, damaged, and without end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.matcher import Matcher
from forensics.engine.scan import scan_span
from forensics.model import Kind, Observation, Source
from forensics.parsers import kernel
from forensics.parsers.kernel import oom
from forensics.parsers.kernel.lines import read_line
from forensics.parsers.logs import read_log
from forensics.signatures.schema import load_catalogue

DATA = Path(__file__).parent.parent / "data" / "kernel"
ALL = load_catalogue()
MATCHER = Matcher({name: ALL[name] for name in ("host-oom", "host-oom-cgroup")}, use_cache=False)


def kills(name: str, *, drop: str = "") -> list[oom.OomKill]:
    texts = [t for t in (DATA / name).read_text().splitlines() if not drop or drop not in t]
    return oom.read_kills((n, line.message if (line := read_line(t)) else t) for n, t in enumerate(texts))


def observed(file: Path) -> tuple[Observation, ...]:
    size = file.stat().st_size
    source = Source(file.name, file, Kind.LOG, size)
    found = read_log(source, scan_span(MATCHER.database, file, 0, size), MATCHER, reference=0.0)
    return tuple(
        o
        for o in kernel.refine(source, kernel.head_of(source), found.observations, reference=0.0)[0]
        if o.signature in ALL and "oom" in o.signature
    )


def test_a_block_of_5_x() -> None:
    (kill,) = kills("oom_memcg_5.txt")
    assert (kill.pid, kill.process, kill.constraint, kill.invoked_by) == (4242, "python", "cgroup", "pt_data_worker")
    assert (kill.anon, kill.file, kill.shmem, kill.resident) == (10485760, 12, 2097140, 12582912)
    assert (kill.usage, kill.limit, kill.group_shmem) == (67108864, 67108864, 41943040)
    assert kill.largest[0] == ("python", 4242, 12582912) and kill.alike == ("python", 2, 20971520)
    assert oom.filled_by_shared_memory(kill)
    assert oom.owner(kill.limited)["pod"] == "0a1b2c3d-1111-2222-3333-444455556666"
    assert oom.owner(kill.group)["container"] == "ab" * 32


def test_a_block_of_4_x() -> None:
    (kill,) = kills("oom_memcg_4.txt")
    assert (kill.pid, kill.constraint, kill.limit, kill.group_shmem) == (4242, "cgroup", 67108864, 1048576)
    assert kill.resident == 39506172
    assert oom.owner(kill.group) == {"slurm_job": "123", "slurm_step": "0", "task": "3"}
    assert kill.limited == "/slurm/uid_1000/job_123"
    assert not oom.filled_by_shared_memory(kill)
    assert oom.captures(kill)["task"] == "3"


def test_a_block_of_the_host() -> None:
    (kill,) = kills("oom_global.txt")
    assert (kill.process, kill.constraint, kill.group_shmem) == ("KMS thread", "host", 1572864)
    assert kill.largest == (("KMS thread", 1306511, 595896),)
    assert "node_exporter had asked for memory" in oom.describe(kill)


@pytest.mark.parametrize(
    "drop", ["invoked oom-killer", "oom-kill:constraint", "memory: usage", "[  pid  ]", "oom_reaper"]
)
def test_a_block_in_part(drop: str) -> None:
    (kill,) = kills("oom_memcg_5.txt", drop=drop)
    assert (kill.pid, kill.constraint, kill.resident) == (4242, "cgroup", 12582912)


def test_a_victims_line_alone() -> None:
    (kill,) = oom.read_kills(
        [(7, "Out of memory: Killed process 5 (python3) total-vm:1kB, anon-rss:2kB, file-rss:0kB")]
    )
    assert (kill.places, kill.constraint, kill.resident, kill.limit) == ((7,), "host", 2, None)
    assert oom.describe(kill) == "python3 (pid 5) was killed with 2 kB resident: the host's memory was full"


def test_a_group_that_is_killed_together() -> None:
    lines = [
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/a/b,task_memcg=/a/b,task=python,pid=5,uid=0",
        "Memory cgroup out of memory: Killed process 5 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB",
        "Tasks in /a/b are going to be killed due to memory.oom.group set",
        "Memory cgroup out of memory: Killed process 6 (python) total-vm:9kB, anon-rss:7kB, file-rss:0kB, shmem-rss:0kB",
    ]
    found = oom.read_kills(enumerate(lines))
    assert [(k.pid, k.limited, k.together) for k in found] == [(5, "/a/b", True), (6, "/a/b", True)]


def test_two_kills_are_two() -> None:
    line = "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
    killed = "Memory cgroup out of memory: Killed process {} (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB"
    found = oom.read_kills(enumerate([line, killed.format(5), line, killed.format(6)]))
    assert [(k.pid, k.places) for k in found] == [(5, (1, 0)), (6, (3, 2))]


def test_a_victim_with_a_reason_of_its_own_is_of_another_kill() -> None:
    lines = [
        "Memory cgroup out of memory: Killed process 5 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
        "Tasks in /a/b are going to be killed due to memory.oom.group set",
        "Memory cgroup out of memory: Killed process 6 (python) total-vm:9kB, anon-rss:7kB, file-rss:0kB",
        "Out of memory: Killed process 7 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
        "Out of memory: Killed process 8 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
    ]
    found = oom.read_kills(enumerate(lines))
    assert [(k.pid, k.constraint, k.together) for k in found] == [
        (5, "cgroup", True),
        (6, "cgroup", True),
        (7, "host", False),
        (8, "host", False),
    ]


def test_a_child_that_is_killed_instead_is_of_the_same_kill() -> None:
    lines = [
        "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "Memory cgroup out of memory: Kill process 5 (python) score 917 or sacrifice child",
        "Killed process 6 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
    ]
    found = oom.read_kills(enumerate(lines))
    assert [(k.pid, k.constraint, k.invoked_by) for k in found] == [(5, "cgroup", "python"), (6, "cgroup", "python")]


def test_lists_in_a_summary_hold_commas() -> None:
    text = (
        "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0-2,4,cpuset=/jobs,mems_allowed=0,2-4,global_oom,task_memcg=/jobs/a,b,"
        "task=a,b,pid=10,uid=1000"
    )
    (kill,) = oom.read_kills([(0, text)])
    assert (kill.pid, kill.process, kill.group, kill.constraint) == (10, "a,b", "/jobs/a,b", "cpuset")
    assert "not the host" in oom.describe(kill)


def test_pages_of_64_kb_are_told_by_the_victims_row() -> None:
    lines = [
        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
        "[      5]  1000     5     9999     1000        0        0             0 python",
        "[      6]  1000     6     9999     2000        0        0             0 other",
        "Out of memory: Killed process 5 (python) total-vm:1kB, anon-rss:64000kB, file-rss:0kB, shmem-rss:0kB",
    ]
    (kill,) = oom.read_kills(enumerate(lines))
    assert kill.largest == (("other", 6, 128000), ("python", 5, 64000))


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        (
            "/system.slice/slurmstepd.scope/job_77/step_batch/user/task_0",
            {"slurm_job": "77", "slurm_step": "batch", "task": "0"},
        ),
        ("/docker/" + "0f" * 32, {"container": "0f" * 32}),
        ("/system.slice/train.service", {"unit": "train.service"}),
        ("/", {}),
        (None, {}),
    ],
)
def test_owners(path: str | None, whose: dict[str, str]) -> None:
    assert oom.owner(path) == whose


@pytest.mark.parametrize(
    ("name", "signature", "task"),
    [
        ("oom_memcg_5.txt", "host-oom-cgroup", None),
        ("oom_memcg_4.txt", "host-oom-cgroup", 3),
        ("oom_global.txt", "host-oom", None),
    ],
)
def test_one_observation_for_each_kill(name: str, signature: str, task: int | None) -> None:
    (found,) = observed(DATA / name)
    assert (found.signature, found.count, found.identity.task) == (signature, 1, task)
    assert found.identity.pid == int(found.captures["pid"]) and found.note is not None and "was killed" in found.note
    assert "Kill" in found.evidence[0].text


def test_a_block_that_is_cut_off_is_still_a_sign(tmp_path: Path) -> None:
    file = tmp_path / "dmesg.txt"
    file.write_text("[  100.000000] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n")
    assert [o.signature for o in observed(file)] == ["host-oom"]


_LINES = [
    line
    for name in ("oom_memcg_5.txt", "oom_memcg_4.txt", "oom_global.txt")
    for line in (DATA / name).read_text().splitlines()
]


@given(st.lists(st.one_of(st.sampled_from(_LINES), st.text(max_size=60)), max_size=40), st.integers(0, 90))
def test_nothing_raises(lines: list[str], cut: int) -> None:
    texts = [line[:cut] if n % 3 == 2 else line for n, line in enumerate(lines)]
    messages = [(n, line.message if (line := read_line(t)) else t) for n, t in enumerate(texts)]
    for kill in oom.read_kills(messages):
        oom.describe(kill)
        oom.captures(kill)
        assert set(kill.places) <= set(range(len(lines)))
