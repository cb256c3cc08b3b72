"""What the kernel says without a time: nothing tells whether the run was there, so what its logs show decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.kernel import in_words_of_kernel
from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict

SEGFAULT = "python3[1231]: segfault at 0 ip 00007f2a1c2b3d4e sp 00007ffd0 error 4 in libc.so.6[7f2a1c000000+1c000]"
KILLED = (
    "Memory cgroup out of memory: Killed process 991 (python3) total-vm:91234567kB, anon-rss:65100200kB, "
    "file-rss:1024kB, shmem-rss:2048kB, UID:0 pgtables:131072kB oom_score_adj:985"
)
DISK = "blk_update_request: I/O error, dev sdb, sector 812345 op 0x0:(READ) flags 0x0 phys_seg 4 prio class 0"
BLOCKED = "INFO: task python3:5501 blocked for more than 120 seconds."
LINK = "mlx5_core 0000:c1:00.0 mlx5_2: Port: 1 Link DOWN"
RING = "amdgpu 0000:83:00.0: amdgpu: ring gfx timeout, signaled seq=1, emitted seq=3"
BUS = "NVRM: Xid (PCI:0000:61:00): 79, pid=4, name=python, GPU has fallen off the bus."
MESSAGES = [SEGFAULT, KILLED, DISK, BLOCKED, LINK, RING, BUS]
STAMPS = ["[ 3600.100000] ", "", "[ 3600.1] "]
FINISHED = "2026-05-14 10:09:00 INFO Training finished. Saved final checkpoint.\n"
RAISED = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/train.py", line 90, in main\n{error}\n'
KEY_ERROR = RAISED.format(error="[rank1]:     d['y']\n[rank1]: KeyError: 'y'")


def steps(count: int = 40) -> str:
    return "".join(
        f"2026-05-14 10:{n // 5:02d}:{12 * (n % 5):02d} step {n} loss {3 - n / 100:.3f}\n" for n in range(count)
    )


def diagnosed(folder: Path, kernel: str, log: str) -> Diagnosis:
    (folder / "train.log").write_text(log)
    (folder / "dmesg.txt").write_text(kernel)
    return analyse([str(folder)], Options(cache=False))


def names(found: Diagnosis, role: Role) -> list[str]:
    return [f.name for f in found.of_role(role)]


@pytest.mark.parametrize("stamp", STAMPS, ids=["stamp of printk", "no stamp", "stamp cut short"])
@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.split()[0])
def test_a_run_that_finished_did_not_suffer(tmp_path: Path, message: str, stamp: str) -> None:
    found = diagnosed(tmp_path, f"{stamp}{message}\n", steps() + FINISHED)
    assert found.verdict is Verdict.HEALTHY
    assert not names(found, Role.ROOT) + names(found, Role.CASCADE)


@pytest.mark.parametrize(
    "text",
    [
        "train[12]: step 4",
        "a worker was killed: process 991 (python3)",
        "I/O error, see above",
        "INFO: task 4 blocked",
        "ERROR: Killed process",
        f"2026-05-14 10:00:00 WARN dmesg says: {KILLED}",
        "NCCL INFO NET/IB : Using [0]mlx5_2:1/IB on 0000:c1:00.0",
    ],
)
def test_what_programs_print_is_not_the_kernels(text: str) -> None:
    assert not in_words_of_kernel(text)


@pytest.mark.parametrize("stamp", STAMPS, ids=["stamp of printk", "no stamp", "stamp cut short"])
@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.split()[0])
def test_a_run_that_ended_of_its_own_code_did_not_suffer(tmp_path: Path, message: str, stamp: str) -> None:
    found = diagnosed(tmp_path, f"{stamp}{message}\n", steps() + KEY_ERROR)
    assert names(found, Role.ROOT) == ["python-exception"]
    assert found.of_role(Role.ROOT)[0].ranks == (1,)


def test_a_gpus_memory_is_not_the_hosts(tmp_path: Path) -> None:
    full = (
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 1 has a total capacity "
    )
    full += "of 79.10 GiB of which 1.22 GiB is free.\n"
    found = diagnosed(tmp_path, f"[ 3600.100000] {KILLED}\n", steps() + full)
    assert names(found, Role.ROOT) == ["cuda-oom"]


@pytest.mark.parametrize("message", [SEGFAULT, BUS])
def test_a_limit_of_time_in_the_midst_of_training_does_not_follow(tmp_path: Path, message: str) -> None:
    ended = "slurmstepd: error: *** JOB 5 ON g1 CANCELLED AT 2026-05-14T10:08:00 DUE TO TIME LIMIT ***\n"
    found = diagnosed(tmp_path, f"[ 3600.100000] {message}\n", steps() + ended)
    assert (found.verdict, names(found, Role.ROOT)) == (Verdict.INTERRUPTED, ["scheduler-time-limit"])


LAUNCHER = (
    "E0514 10:08:10.000000 100 torch/distributed/elastic/multiprocessing/api.py:869] "
    "failed (exitcode: {code}) local_rank: 1 (pid: {pid}) of binary: /usr/bin/python3\n"
)
CUDA_ERROR = RAISED.format(error="[rank1]: torch.AcceleratorError: CUDA error: unknown error")


@pytest.mark.parametrize(
    ("message", "log", "root"),
    [
        (KILLED, KEY_ERROR + LAUNCHER.format(code=-9, pid=4001), "host-oom-cgroup"),
        (SEGFAULT, LAUNCHER.format(code=-11, pid=1231), "rank-segfault"),
        (BUS, CUDA_ERROR, "gpu-fell-off-bus"),
    ],
    ids=["killed", "crashed", "lost its device"],
)
def test_what_the_run_shows_is_joined_all_the_same(tmp_path: Path, message: str, log: str, root: str) -> None:
    found = diagnosed(tmp_path, f"[ 3600.100000] {message}\n", steps() + log)
    assert root in names(found, Role.ROOT)


def test_a_peers_killed_process_is_no_sign_of_a_kill_where_its_exit_code_is_another(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, f"[ 3600.100000] {KILLED}\n", steps() + KEY_ERROR + LAUNCHER.format(code=1, pid=4001))
    assert names(found, Role.ROOT) == ["python-exception"]


BOOT = (
    "[    1.200000] rtc_cmos 00:00: setting system clock to 2026-05-14T{boot} UTC ({epoch})\n[ 2400.100000] {message}\n"
)
MIDNIGHT = 1_778_716_800  # of 2026-05-14 in UTC, seconds since the epoch


CORRUPT = RAISED.format(error="[rank1]: PIL.UnidentifiedImageError: cannot identify image file '/data/a.jpg'")


def since_boot(boot: str, message: str = BUS) -> str:
    epoch = MIDNIGHT + 3600 * int(boot[:2]) + 60 * int(boot[3:5])
    return BOOT.format(boot=boot, epoch=epoch, message=message)


@pytest.mark.parametrize(
    ("boot", "root"),
    [
        ("06:55:00", "corrupt-sample"),  # 07:35 UTC: 09:35 and 10:35 in the zones that come nearest
        ("05:25:00", "gpu-fell-off-bus"),  # 06:05 UTC: 10:05 in a zone four hours ahead
        ("04:00:00", "gpu-fell-off-bus"),  # 04:40 UTC: 10:10 in India
    ],
)
def test_a_message_that_no_zone_brings_to_the_run_is_not_the_runs(tmp_path: Path, boot: str, root: str) -> None:
    found = diagnosed(tmp_path, since_boot(boot), steps() + CORRUPT)
    assert names(found, Role.ROOT)[0] == root


@pytest.mark.parametrize("message", [BUS, KILLED, SEGFAULT])
@pytest.mark.parametrize("boot", ["06:55:00", "05:25:00", "04:00:00"])
def test_a_clock_of_another_zone_ties_no_message_to_an_error_that_does_not_follow_from_it(
    tmp_path: Path, boot: str, message: str
) -> None:
    found = diagnosed(tmp_path, since_boot(boot, message), steps() + KEY_ERROR)
    assert names(found, Role.ROOT) == ["python-exception"]


def test_a_clock_of_another_zone_ties_a_message_to_an_error_that_follows_from_it(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, since_boot("05:25:00"), steps() + CUDA_ERROR)
    assert "gpu-fell-off-bus" in names(found, Role.ROOT)


def test_the_time_of_a_line_above_dates_no_message(tmp_path: Path) -> None:
    dated = since_boot("06:55:00").splitlines()[0]
    found = diagnosed(tmp_path, f"{dated}\n[ 3610.1] {KILLED}\n", steps() + KEY_ERROR)
    assert names(found, Role.ROOT) == ["python-exception"]


AT = "[Thu May 14 10:{minute}:06 2026] {message}\n"  # by the clock of the run, whose last step is logged at 10:07:48


@pytest.mark.parametrize("message", [KILLED, SEGFAULT])
def test_a_kill_that_the_run_logged_on_past_is_no_cause_of_what_its_code_raised(tmp_path: Path, message: str) -> None:
    found = diagnosed(tmp_path, AT.format(minute="07", message=message), steps() + KEY_ERROR)
    assert names(found, Role.ROOT) == ["python-exception"]


@pytest.mark.parametrize(
    ("minute", "log"),
    [("08", KEY_ERROR), ("07", KEY_ERROR + LAUNCHER.format(code=-9, pid=4001))],
    ids=["below the last step", "a process was killed"],
)
def test_a_kill_stands_where_the_run_may_miss_that_process(tmp_path: Path, minute: str, log: str) -> None:
    found = diagnosed(tmp_path, AT.format(minute=minute, message=KILLED), steps() + log)
    assert "host-oom-cgroup" in names(found, Role.ROOT)


def test_a_rank_whose_log_breaks_off_may_be_the_one_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("".join(steps(20)))
    (tmp_path / "rank_1.log").write_text(steps() + KEY_ERROR)
    (tmp_path / "dmesg.txt").write_text(AT.format(minute="04", message=KILLED))
    found = analyse([str(tmp_path)], Options(cache=False))
    assert "host-oom-cgroup" in names(found, Role.ROOT)
