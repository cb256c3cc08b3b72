"""When a log begins and ends: by the stamps of its own lines, and not by other dates that it quotes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.parsers.span import span
from forensics.parsers.stamps import parse_time

NOV = datetime(2026, 11, 28, tzinfo=UTC).timestamp()
FIRST = datetime(2026, 11, 27, 2, 21, tzinfo=UTC).timestamp()
LAST = datetime(2026, 11, 27, 2, 27, tzinfo=UTC).timestamp()
OWN = "".join(f"2026-11-27 02:{n}:00,000 - INFO - step {n} loss 2.0\n" for n in range(21, 28))

QUOTED = [
    "Linux node-7 6.8.0-85-generic #85-Ubuntu SMP PREEMPT_DYNAMIC Thu Sep 18 15:26:59 UTC 2026 x86_64 GNU/Linux",
    "Date:   Mon Nov 16 11:12:13 2026 +0100",
    "HEAD 1a2b3c4 2026-11-16 11:12:13 +0100 fix the sampler",
    "-rw-r--r-- 1 me team 2147483648 2026-10-12 08:00:00.000000000 +0000 model.safetensors\n" * 5,
    "config: {'start_date': '2026-01-01 00:00:00', 'lr': 0.001}",
    "License expires 2026-12-31 23:59:59",
    "SSL certificate: expire date: Feb  3 10:00:00 2027 GMT",
]


@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize("at", ["head", "tail"])
def test_a_quoted_date_is_no_time_of_the_log(quoted: str, at: str) -> None:
    text = f"{quoted}\n{OWN}" if at == "head" else f"{OWN}{quoted}\n"
    assert span(text.encode(), text.encode(), NOV) == (FIRST, LAST)


def test_a_launchers_stamps_of_another_form_count() -> None:
    text = OWN + "E1127 02:29:00.203000 2201 torch/distributed/elastic/api.py:874] failed (exitcode: 1)\n"
    assert span(text.encode(), text.encode(), NOV) == (FIRST, LAST + 120.203)


def test_few_stamps_are_taken_as_they_are() -> None:
    text = b"started 2026-11-16 11:12:13\nstep 1\nstep 2\n"
    first = datetime(2026, 11, 16, 11, 12, 13, tzinfo=UTC).timestamp()
    assert span(text, text, NOV) == (first, first)
    assert span(b"step 1\n", b"step 1\n", NOV) == (None, None)


def test_a_long_run_has_both_its_ends() -> None:
    later = OWN.replace("2026-11-27", "2026-11-25")
    assert span(later.encode(), OWN.encode(), NOV) == (FIRST - 2 * 86400, LAST)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("11/27/2026 02:21:00 - INFO - __main__ - Training", datetime(2026, 11, 27, 2, 21, tzinfo=UTC)),
        ("27/11/2026 02:21:00 - INFO", datetime(2026, 11, 27, 2, 21, tzinfo=UTC)),
        ("[11/27/26 02:21:00] INFO     Training", datetime(2026, 11, 27, 2, 21, tzinfo=UTC)),
        ("Fri Nov 27 02:21:00 PM UTC 2026", datetime(2026, 11, 27, 14, 21, tzinfo=UTC)),
        ("Fri Nov 27 12:21:00 AM UTC 2026", datetime(2026, 11, 27, 0, 21, tzinfo=UTC)),
    ],
)
def test_forms_of_dates(text: str, moment: datetime) -> None:
    assert parse_time(text, NOV)[0] == moment.timestamp()


@given(st.binary(max_size=600), st.binary(max_size=600))
def test_any_bytes(head: bytes, tail: bytes) -> None:
    span(head, tail, NOV)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


SLURM = "slurmstepd: error: *** JOB 4242 ON n1 CANCELLED AT {} DUE TO TIME LIMIT ***\n"
LSF = """
------------------------------------------------------------
Sender: LSF System <lsfadmin@dgx01>
Subject: Job 5512[1]: <python train.py> in cluster <prod> Exited

Job <python train.py> was submitted from host <login1> by user <me> in cluster <prod> at Fri Nov 27 02:19:59 2026
Job was executed on host(s) <dgx01>, in queue <gpu>, as user <me> in cluster <prod> at Fri Nov 27 02:20:01 2026
"""
ENDED = "Started at Fri Nov 27 02:20:01 2026\nTerminated at Sat Nov 28 01:48:13 2026\nResults reported at {}\n"


@pytest.mark.parametrize(
    ("said", "end"),
    [
        (SLURM.format("2026-11-27T14:41:12"), "2026-11-27T14:41:12"),
        (f"{LSF}{ENDED.format('Sat Nov 28 01:48:14 2026')}", "2026-11-28T01:48:14"),
        (LSF, "2026-11-27T02:27:00"),  # when the job began is no time at which it ended
        (SLURM.format("2026-11-27T10:27:31"), "2026-11-27T02:27:00"),  # a host of another zone than the container
        (SLURM.format("2026-11-26T18:27:31"), "2026-11-27T02:27:00"),
        ("a job was CANCELLED AT 2026-11-27T14:41:12, says the documentation\n", "2026-11-27T02:27:00"),
    ],
)
def test_a_scheduler_says_when_a_hung_job_ended(said: str, end: str) -> None:
    assert span((OWN + said).encode(), (OWN + said).encode(), NOV) == (FIRST, moment(end))


def test_stamps_with_a_zone_are_not_compared_with_a_schedulers_without() -> None:
    text = OWN.replace(",000", "Z") + SLURM.format("2026-11-27T14:41:12")
    assert span(text.encode(), text.encode(), NOV) == (FIRST, LAST)


@pytest.mark.parametrize("form", ["{}.125 step {} loss 2.0\n", "[{}] step {}\n", "{},train,{}\n"])
def test_lines_that_begin_with_seconds_since_the_epoch(form: str) -> None:
    lines = [form.format(int(FIRST) + 60 * n, n) for n in range(6)]
    text = "".join(lines) + "Traceback (most recent call last):\nValueError: x\n"
    first, last = span(text.encode(), text.encode(), NOV)
    assert (first, last) == (pytest.approx(FIRST, abs=0.2), pytest.approx(FIRST + 300, abs=0.2))


@pytest.mark.parametrize(
    "text",
    [
        "1700000001 tokens\n1700000009 tokens\n",  # too few
        "".join(f"{n} of them\n" for n in (1700000300, 1700000100, 1700000200)),  # not in order
        "".join(f"seen {1700000000 + n}\n" for n in range(9)),
        "1700000000 1\n1700000001 2\n1700000002 3\n" + "step\n" * 9,  # most lines bear none
    ],
)
def test_other_numbers_are_no_times(text: str) -> None:
    assert span(text.encode(), text.encode(), NOV) == (None, None)
