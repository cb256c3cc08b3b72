"""Runs that went silent long before they were stopped, and runs that were only stopped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import Options, explain
from forensics.engine.reading import read, sniffers
from forensics.model import Diagnosis, Finding, Role, Verdict
from forensics.run import discover
from forensics.signatures.schema import load_catalogue

CATALOGUE = load_catalogue()
MATCHER = Matcher(CATALOGUE)
START = 9 * 3600


def diagnose(folder: Path, files: Mapping[str, Iterable[str]]) -> Diagnosis:
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    run = discover([str(folder)], sniffers())
    return explain(read(run, MATCHER, Options(threads=1)), CATALOGUE)


def first(diagnosis: Diagnosis) -> Finding:
    found = diagnosis.of_role(Role.ROOT)
    assert found, diagnosis.summary
    return found[0]


def clock(seconds: float, sep: str = " ") -> str:
    whole = int(START + seconds)
    return f"2026-08-10{sep}{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def steps(upto: int, every: float = 3.0, prefix: str = "", pad: str = "") -> list[str]:
    return [f"{prefix}{clock(n * every)} INFO step {n} loss {4 - n / 1000:.4f}{pad}" for n in range(1, upto + 1)]


def limit(at: float) -> str:
    return f"slurmstepd: error: *** JOB 12 ON node-1 CANCELLED AT {clock(at, 'T')} DUE TO TIME LIMIT ***"


# Steps end after 15 minutes; 2 h 8 min later the limit comes, which no time zone explains.
LAST, CUT = 300, 900 + 2 * 3600 + 1000


def merged(ends: Sequence[int], cut: float = CUT) -> list[str]:
    """Lines of several ranks in one file, in the order of their times, as `srun -l` writes them."""
    rows = [(n, rank, line) for rank, end in enumerate(ends) for n, line in enumerate(steps(end, prefix=f"{rank}: "))]
    return [line for *_, line in sorted(rows)] + [limit(cut)]


def per_rank(ends: Sequence[int], cut: float = CUT) -> dict[str, list[str]]:
    return {f"rank{rank}.log": steps(end) for rank, end in enumerate(ends)} | {"slurm-12.out": ["+ srun", limit(cut)]}


@pytest.mark.parametrize("layout", [lambda ends: {"slurm-12.out": merged(ends)}, per_rank])
@pytest.mark.parametrize(
    ("ends", "ranks"),
    [
        ([LAST, LAST, LAST - 1, LAST], (2,)),
        ([LAST] * 4, None),
        ([LAST, LAST, LAST - 1, LAST - 1], None),  # no majority
        ([LAST, LAST, LAST - 7, LAST], (2,)),  # the others were that much ahead of what they waited for
        ([LAST, LAST, LAST - 7, LAST - 5], None),  # half of all
        ([LAST, LAST, LAST + 3, LAST], None),  # ahead
        ([LAST, LAST, LAST - 90, LAST], None),  # nobody is so far ahead of what he waits for
    ],
)
def test_silence_before_the_limit(
    tmp_path: Path, layout: object, ends: Sequence[int], ranks: tuple[int, ...] | None
) -> None:
    found = diagnose(tmp_path, layout(ends))  # type: ignore[operator]
    root = first(found)
    assert (found.verdict, root.name, root.ranks) == (Verdict.HUNG, "silent-hang", ranks)
    assert "2 h 8 min" in root.notes[0] or "2 h 7 min" in root.notes[0] or "2 h 17 min" in root.notes[0]
    assert [f.name for f in found.findings if f.explained_by == root.id] == ["scheduler-time-limit"]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*steps(LAST), limit(LAST * 3 + 2)], id="steps-until-the-limit"),
        pytest.param([*steps(LAST), limit(LAST * 3 + 200)], id="three-minutes"),
        # The program prints UTC, the scheduler the host's time, two hours ahead: the last step is 10 s before the stop.
        pytest.param([*steps(LAST), limit(LAST * 3 + 7210)], id="time-zone"),
        # What was printed in a whole buffer's time can be lost: 8 KB are 170 steps of these, of a minute each.
        pytest.param([*steps(200, 60.0), limit(200 * 60 + 4000)], id="buffered"),
        pytest.param(
            [*steps(LAST), "Running evaluation", *[f" {n}%|##  | {n}/100 [00:10<00:10,  1.0it/s]" for n in range(90)], limit(CUT)],
            id="a-bar-without-times-went-on",
        ),
        pytest.param([*steps(LAST), *["  sample of generated text"] * 40, limit(CUT)], id="lines-without-times-went-on"),
        pytest.param([*steps(LAST), f"{clock(900)} INFO Running evaluation", limit(900 + 1500)], id="evaluation"),
        pytest.param([*steps(LAST), f"{clock(900)} INFO Running evaluation", limit(CUT)], id="long-evaluation"),
        pytest.param([*steps(4), limit(CUT)], id="no-rhythm"),
        pytest.param(
            [line.replace(" loss", f"/{LAST} loss") for line in steps(LAST)] + [limit(CUT)], id="all-steps-were-made"
        ),
        pytest.param([*(f"step {n} loss 2.0" for n in range(99)), limit(CUT)], id="no-times"),
    ],
)  # fmt: skip
def test_stopped_and_not_known_to_hang(tmp_path: Path, lines: list[str]) -> None:
    found = diagnose(tmp_path, {"train.log": lines})
    assert (found.verdict, first(found).name) == (Verdict.INTERRUPTED, "scheduler-time-limit")


def test_a_stage_that_ended_long_before(tmp_path: Path) -> None:
    lines = [f"{clock(0)} INFO Training complete", *steps(LAST), limit(CUT)]
    found = diagnose(tmp_path, {"train.log": lines})
    assert (found.verdict, first(found).name) == (Verdict.HUNG, "silent-hang")


@pytest.mark.parametrize(
    "junk", [b"\x00" * 90_000, b"\xff\xfe2026-99-99 99:99:99\n" * 400, b"\r" * 5000, b"99:99:99" * 9999]
)
def test_any_bytes_before_the_stop(tmp_path: Path, junk: bytes) -> None:
    text = "\n".join(steps(LAST)).encode() + b"\n" + junk + b"\n" + limit(CUT).encode()
    (tmp_path / "train.log").write_bytes(text)
    found = diagnose(tmp_path, {})
    assert found.verdict in (Verdict.HUNG, Verdict.INTERRUPTED)


def test_another_log_that_goes_on(tmp_path: Path) -> None:
    files = {"rank0.log": steps(LAST), "rank1.log": steps((CUT - 60) // 3), "slurm-12.out": [limit(CUT)]}
    assert diagnose(tmp_path, files).verdict is Verdict.INTERRUPTED


def test_the_last_lines_tell_of_saving(tmp_path: Path) -> None:
    saving = f"{clock(901)} INFO Saving checkpoint to /mnt/ckpt/step_300"
    found = diagnose(tmp_path, {"train.log": [*steps(LAST), saving, limit(CUT)]})
    assert found.verdict is Verdict.HUNG
    assert "tell of saving" in first(found).notes[0]


def nccl(rank: int, calls: int) -> list[str]:
    """NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL; its lines bear no time."""
    head = f"node-1:{500 + rank}:{500 + rank} [{rank}] NCCL INFO"
    born = f"comm 0x5{rank}a0 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId 0xc2ff"
    return [f"{head} ncclCommInitRank {born} - Init START", f"{head} ncclCommInitRank {born} - Init COMPLETE"] + [
        f"{head} AllReduce: opCount {n:x} sendbuff 0x7f00 recvbuff 0x7f00 count 64 datatype 7 op 0 root 0 "
        f"comm 0x5{rank}a0 [nranks=4] stream 0x18"
        for n in range(calls)
    ]


@pytest.mark.parametrize(
    ("calls", "ranks"), [([50, 50, 49, 50], (2,)), ([50, 50, 49, 49], None), ([50] * 4, None), ([50, 50, 31, 50], (2,))]
)
def test_one_call_behind_counts_where_the_silence_is_known(
    tmp_path: Path, calls: list[int], ranks: tuple[int, ...] | None
) -> None:
    files = {f"nccl.{rank}.log": nccl(rank, n) for rank, n in enumerate(calls)}
    found = diagnose(tmp_path, files | {"train.log": [*steps(LAST), limit(CUT)]})
    assert (first(found).name, first(found).ranks) == ("silent-hang", ranks)
    said = (
        f"The last call of rank 2 is all_reduce #{calls[2]} (opCount {calls[2] - 1:x}), "
        "that of all others all_reduce #50 (opCount 31)."
    )
    assert (said in first(found).notes[0]) == bool(ranks)


def test_one_call_behind_alone_proves_nothing(tmp_path: Path) -> None:
    files = {f"nccl.{rank}.log": nccl(rank, n) for rank, n in enumerate([50, 50, 49, 50])}
    assert diagnose(tmp_path, files | {"slurm-1.out": [limit(CUT)]}).verdict is Verdict.INTERRUPTED


BY_HAND = [
    "Traceback (most recent call last):",
    '  File "/srv/train.py", line 90, in <module>',
    "    main()",
    '  File "/srv/train.py", line 55, in main',
    "    loss.backward()",
    "KeyboardInterrupt",
]


@pytest.mark.parametrize(("goes_on", "verdict"), [(False, Verdict.HUNG), (True, Verdict.INTERRUPTED)])
def test_a_hang_that_was_stopped_by_hand(tmp_path: Path, goes_on: bool, verdict: Verdict) -> None:
    """The stop stands in the launcher's log; what it raised in the ranks bears no time."""
    after = f"{clock(CUT)} WARNING Received 2 death signal, shutting down workers".replace("WARNING ", "")
    launcher = f"W0810 {after[11:19]}.000000 900 torch/distributed/elastic/agent/server/api.py:704] {after[20:]}"
    files = {f"rank{rank}.log": [*steps(LAST - 3 * (rank == 2)), *BY_HAND] for rank in range(4)}
    if goes_on:
        files["rank1.log"] = [*steps(LAST), *BY_HAND, *steps((CUT - 60) // 3)[LAST:]]
    found = diagnose(tmp_path, files | {"torchrun.log": [launcher]})
    assert found.verdict is verdict
    if not goes_on:
        assert (first(found).name, first(found).ranks) == ("silent-hang", (2,))


def test_what_a_rank_raised_explains_the_silence(tmp_path: Path) -> None:
    files: dict[str, list[str]] = per_rank([LAST, LAST, LAST - 1, LAST])
    files["rank2.log"] += [
        "Traceback (most recent call last):",
        '  File "/srv/train.py", line 90, in <module>',
        "    main()",
        "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed. ",
    ]
    assert first(diagnose(tmp_path, files)).name == "dataloader-worker-killed"


def test_the_end_was_said_and_the_job_went_on(tmp_path: Path) -> None:
    done = f"{clock(902)} INFO Training complete"
    found = diagnose(tmp_path, {"train.log": [*steps(LAST), done, limit(CUT)]})
    assert (found.verdict, first(found).name) == (Verdict.HUNG, "teardown-hang")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param([limit(902 + 60)], id="a-minute-later"),
        pytest.param([f"{clock(CUT - 30)} INFO exported 12 files", limit(CUT)], id="work-afterwards"),
    ],
)
def test_the_end_was_said_shortly_before_the_limit(tmp_path: Path, after: list[str]) -> None:
    found = diagnose(tmp_path, {"train.log": [*steps(LAST), f"{clock(902)} INFO Training complete", *after]})
    assert all(f.name != "teardown-hang" for f in found.findings)


@pytest.mark.parametrize(("silent", "noted"), [(2 * 3600 + 10, True), (2, False), (200, False)])
def test_a_silence_that_a_time_zone_may_explain_is_a_note_of_the_stop(tmp_path: Path, silent: int, noted: bool) -> None:
    found = diagnose(tmp_path, {"train.log": [*steps(LAST), limit(LAST * 3 + silent)]})
    root = first(found)
    assert (found.verdict, root.name) == (Verdict.INTERRUPTED, "scheduler-time-limit")
    assert any("No log holds anything for the 2 h 0 min" in note for note in root.notes) == noted


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([LAST, LAST, LAST - 1, LAST], "Rank 2 ended at step 299, all others at step 300"),
        ([LAST, LAST, LAST - 7, LAST], "Rank 2 ended first, at step 293, 7 behind most others, at 300"),
        ([LAST] * 4, None),
        ([LAST, LAST, LAST - 90, LAST], None),
    ],
)
def test_the_rank_that_ended_first_is_told_beside_such_a_silence(
    tmp_path: Path, ends: Sequence[int], said: str | None
) -> None:
    root = first(diagnose(tmp_path, per_rank(ends, LAST * 3 + 2 * 3600 + 10)))
    assert (root.name, root.ranks) == ("scheduler-time-limit", None)
    silence = next(note for note in root.notes if "No log holds anything" in note)
    assert silence.endswith(said or "if they are in one, the run hung")


@pytest.mark.parametrize(
    ("pad", "root"),
    [
        pytest.param(0, "silent-hang", id="shorter-than-any-buffer"),
        pytest.param(60, "silent-hang", id="no-multiple-of-a-page-and-shorter-than-python's"),
        pytest.param(85, "scheduler-time-limit", id="as-long-as-python's"),
    ],
)
def test_a_log_that_no_buffer_wrote_holds_nothing_back(tmp_path: Path, pad: int, root: str) -> None:
    """A line a minute for an hour: less than a buffer, or with ends where none was full, was written line by line."""
    lines = steps(60, every=60.0, pad=" " * pad)
    assert first(diagnose(tmp_path, {"slurm-12.out": [*lines, limit(3600 + 4300)]})).name == root


@pytest.mark.parametrize(("silent", "root"), [(900, "scheduler-time-limit"), (2400, "silent-hang")])
def test_a_longer_log_is_not_silent_for_what_may_be_an_evaluation(tmp_path: Path, silent: int, root: str) -> None:
    """Python's logging writes each line at once, so that a buffer explains no silence at all."""
    found = diagnose(tmp_path, {"slurm-12.out": [*logged(LAST, every=20.0), limit(LAST * 20 + silent)]})
    assert first(found).name == root


@pytest.mark.parametrize(
    ("cut", "root"), [("\n", "silent-hang"), ("", "scheduler-time-limit")], ids=["whole-line", "cut-line"]
)
def test_a_log_of_its_own_that_ends_in_mid_line_may_have_been_held_back(tmp_path: Path, cut: str, root: str) -> None:
    text = "\n".join(steps(60, every=60.0, pad=" " * 60)) + cut
    (tmp_path / "train.log").write_text(text, "utf-8")
    assert first(diagnose(tmp_path, {"slurm-12.out": [limit(3600 + 4300)]})).name == root


@pytest.mark.parametrize(("in_turns", "root"), [(True, "silent-hang"), (False, "scheduler-time-limit")])
def test_ranks_that_write_in_turns_hold_back_no_more_than_the_file(tmp_path: Path, in_turns: bool, root: str) -> None:
    """Two hours are a zone's, 1000 s are not, unless each rank had its own full buffer."""
    rows = [(n, rank, line) for rank in range(8) for n, line in enumerate(steps(60, every=5.0, prefix=f"{rank}: "))]
    lines = [line for *_, line in (sorted(rows) if in_turns else rows)]
    found = diagnose(tmp_path, {"slurm-12.out": [*lines, limit(300 + 2 * 3600 + 1000)]})
    assert first(found).name == root


def logged(upto: int, every: float = 5.0, zone: str = "") -> list[str]:
    """As Python's logging prints its time, or with a zone."""
    return [line.replace(" INFO", f",123{zone} INFO") for line in steps(upto, every)]


ZONE = 5 * 3600 + 40  # seconds: five hours are a zone's, 40 s a pause


@pytest.mark.parametrize(
    ("ends", "silent", "zone", "ranks"),
    [
        pytest.param([300, 300, 296, 300], ZONE, "", (2,), id="a-zone-may-explain-it"),
        pytest.param([300, 300, 296, 300], ZONE, "Z", (2,), id="their-zone-is-known-and-the-stop's-is-not"),
        pytest.param([300, 300, 299, 300], ZONE, "", None, id="one-record"),
        pytest.param([300, 300, 300, 300], ZONE, "", None, id="trained-until-the-limit"),
        pytest.param([300, 300, 300, 300], ZONE, "Z", None, id="trained-until-the-limit-in-a-known-zone"),
        pytest.param([300, 300, 304, 300], ZONE, "", None, id="ahead"),
        pytest.param([300, 300, 296, 296], ZONE, "", None, id="half-of-them"),
        pytest.param([300, 300, 296, 300], 40, "", None, id="the-limit-right-behind"),
        pytest.param([300, 0, 0, 0], ZONE, "", None, id="rank-0-alone-logs"),
    ],
)
def test_a_rank_that_the_others_waited_for_is_named_whatever_the_zone(
    tmp_path: Path, ends: Sequence[int], silent: float, zone: str, ranks: tuple[int, ...] | None
) -> None:
    files = {f"rank{rank}.log": logged(end, zone=zone) for rank, end in enumerate(ends)}
    found = diagnose(tmp_path, files | {"slurm-12.out": [limit(1500 + silent)]})
    root = first(found)
    if ranks is None:
        assert (found.verdict, root.name) == (Verdict.INTERRUPTED, "scheduler-time-limit")
        return
    assert (found.verdict, root.name, root.ranks) == (Verdict.HUNG, "silent-hang", ranks)
    assert root.confidence < 0.6
    assert "Rank 2 ended first, at step 296" in root.notes[0]
    assert [f.name for f in found.findings if f.explained_by == root.id] == ["scheduler-time-limit"]


def test_records_that_come_faster_than_a_stop_kills_all_ranks_name_none(tmp_path: Path) -> None:
    files = {f"rank{rank}.log": logged(end, every=1.0) for rank, end in enumerate([300, 300, 296, 300])}
    found = diagnose(tmp_path, files | {"slurm-12.out": [limit(300 + ZONE)]})
    assert first(found).name == "scheduler-time-limit"


def test_a_log_that_a_buffer_may_have_cut_is_behind_by_nothing(tmp_path: Path) -> None:
    files = {f"rank{rank}.log": steps(end, every=5.0) for rank, end in enumerate([300, 300, 296, 300])}
    found = diagnose(tmp_path, files | {"slurm-12.out": [limit(1500 + ZONE)]})
    assert first(found).name == "scheduler-time-limit"


@pytest.mark.parametrize(("last", "root"), [(296, "silent-hang"), (300, "scheduler-time-limit")])
def test_a_heartbeat_that_goes_on_beside_ranks_that_wait(tmp_path: Path, last: int, root: str) -> None:
    files = {f"rank{rank}.log": logged(end) for rank, end in enumerate([300, 300, last, 300])}
    alive = [f"{clock(60 * n)} launcher: all processes alive" for n in range(CUT // 60)]
    assert first(diagnose(tmp_path, files | {"launch.log": [*alive, limit(CUT)]})).name == root


@pytest.mark.parametrize("beside", [(), [f"{clock(60 * n)} launcher: alive" for n in range((1500 + ZONE) // 60)]])
def test_a_rank_behind_is_no_culprit_once_the_end_was_said(tmp_path: Path, beside: Sequence[str]) -> None:
    files = {f"rank{rank}.log": logged(end) for rank, end in enumerate([300, 300, 296, 300])}
    files["rank0.log"] += [f"{clock(1501)},123 INFO Training complete"]
    found = diagnose(tmp_path, files | {"slurm-12.out": [*beside, limit(1500 + ZONE)]})
    assert all(f.name != "silent-hang" for f in found.findings)


def date(seconds: float) -> str:
    """As `date` prints it on a host in UTC."""
    return f"Mon Aug 10 {clock(seconds)[11:]} UTC 2026"


@pytest.mark.parametrize(
    ("script", "root"),
    [
        pytest.param([date(0), limit(900 + ZONE), date(900 + ZONE + 5)], "silent-hang", id="date-at-both-ends"),
        pytest.param([date(0), limit(900 + ZONE)], "silent-hang", id="at-the-start-alone"),
        pytest.param([f"start: {date(0)}", limit(900 + ZONE)], "silent-hang", id="behind-a-word"),
        pytest.param(
            [date(0).replace("UTC", "CEST"), limit(900 + ZONE)], "silent-hang", id="of-a-host-in-the-zone-of-the-run"
        ),
        pytest.param([date(0), limit(900 + 2)], "scheduler-time-limit", id="no-silence"),
        pytest.param([date(0).replace(" UTC", ""), limit(900 + ZONE)], "scheduler-time-limit", id="no-zone"),
        pytest.param([date(5 * 3600), limit(900 + ZONE)], "scheduler-time-limit", id="the-date-in-another-zone"),
        pytest.param(["+ date -u", date(0), limit(900 + ZONE)], "scheduler-time-limit", id="asked-for-a-zone"),
        pytest.param(
            ["pyxis: imported docker image: train", date(0), limit(900 + ZONE)],
            "scheduler-time-limit",
            id="of-a-container",
        ),
        pytest.param([limit(900 + ZONE), date(900 + ZONE + 5)], "scheduler-time-limit", id="at-the-end-alone"),
        pytest.param([date(0), limit(900 + ZONE), date(940)], "scheduler-time-limit", id="the-stop-in-another-zone"),
        pytest.param(
            [f"{clock(5 * 3600)} begins", limit(900 + ZONE), f"{clock(900 + ZONE + 5)} ends"],
            "scheduler-time-limit",
            id="the-script-in-another-zone",
        ),
        pytest.param(
            [f"{clock(0)} INFO torchrun", limit(900 + ZONE), f"end: {clock(900 + ZONE + 5)}"],
            "scheduler-time-limit",
            id="lines-of-two-writers",
        ),
        pytest.param(
            [f"{clock(0)} begins", limit(900 + ZONE), limit(900 + ZONE + 1).replace("JOB 12", "STEP 12.0")],
            "scheduler-time-limit",
            id="the-scheduler's-own-lines",
        ),
    ],
)
def test_the_clock_of_the_stop_by_a_log_that_goes_on_to_it(tmp_path: Path, script: list[str], root: str) -> None:
    """All ranks ended at one step: only the clocks tell whether they trained until the limit."""
    found = diagnose(tmp_path, per_rank([LAST] * 4) | {"slurm-12.out": script})
    assert first(found).name == root


def in_utc(files: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {name: [re.sub(r"^(\S+) (\S+)", r"\1T\2Z", line) for line in lines] for name, lines in files.items()}


@pytest.mark.parametrize(
    ("head", "root"),
    [
        (date(0), "silent-hang"),
        (date(0).replace("UTC", "GMT"), "silent-hang"),
        (date(0).replace("UTC", "CEST"), "scheduler-time-limit"),  # it is not the time of the records then
        (date(2 * 3600).replace("UTC", "CEST"), "scheduler-time-limit"),  # the offset of a name is not known
        (date(0).replace(" UTC", ""), "scheduler-time-limit"),
        ("+ srun", "scheduler-time-limit"),
    ],
)
def test_records_in_utc_and_a_stop_by_a_host_whose_date_is(tmp_path: Path, head: str, root: str) -> None:
    ranks = in_utc({f"rank{rank}.log": steps(LAST) for rank in range(4)})
    found = first(diagnose(tmp_path, ranks | {"slurm-12.out": [head, limit(900 + ZONE)]}))
    assert found.name == root and found.ranks is None
    assert any("rests on the date" in note for note in found.notes) is (root == "silent-hang")
