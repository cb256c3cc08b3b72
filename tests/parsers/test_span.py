"""When a log begins and ends: by the stamps of its own lines, and not by other dates that it quotes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.parsers.prefixes import parse_time
from forensics.parsers.span import span

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
