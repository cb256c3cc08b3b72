"""Levels of records in the forms of common loggers, and the error with which a log ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.parsers.severity import Level, last_error, level_of

FATAL = [
    "2025-11-03 09:12:00,123 FATAL [main] com.acme.Ring - the ring is unseated",
    "[2025-11-03 09:12:00.100] [ring] [critical] the ring is unseated",  # spdlog
    "2025-11-03 09:12:00 [critical ] the ring is unseated        ring=3",  # structlog
    'time=2025-11-03T09:12:00Z level=fatal msg="the ring is unseated" component=ring',  # logfmt
    'ts=2025-11-03T09:12:00Z lvl=crit msg="the ring is unseated"',
    '{"level": 60, "time": 1762160000000, "pid": 11, "msg": "the ring is unseated"}',  # pino
    '{"level": "fatal", "ts": 1762160000.1, "caller": "x/y.go:11", "msg": "the ring is unseated"}',  # zap
    '{"record": {"level": {"name": "CRITICAL", "no": 50}}, "text": "the ring is unseated"}',  # loguru
    'trainer-1  | {"severity": "CRITICAL", "message": "the ring is unseated"}',
    '{"PRIORITY": "2", "MESSAGE": "the ring is unseated", "__REALTIME_TIMESTAMP": "1762160000000000"}',  # journald
    "F1103 09:12:00.123456    4242 ring.cc:88] the ring is unseated",  # glog, klog
    "2025-11-03 09:12:00.123456: F tensorflow/core/ring.cc:88] the ring is unseated",
    "SEVERE: the ring is unseated",
    "critical: the ring is unseated",
    "panic: the ring is unseated",
    "2025-11-03 09:12:00 EMERGENCY the ring is unseated",
    "CRITICAL:root:the ring is unseated",
    "\x1b[31m2025-11-03 09:12:00 | CRITICAL | ring:seat:12 - the ring is unseated\x1b[0m",
    "[C 2025-11-03 09:12:00.123 ServerApp] the ring is unseated",  # Jupyter
]
ERROR = [
    "E1103 09:12:00.123456 140123 ring.py:88] the ring is unseated",  # absl
    "[rank3]:[E1103 09:12:00.123456789 ProcessGroupNCCL.cpp:616] the ring is unseated",
    "[NeMo E 2025-11-03 09:12:00 ring:88] the ring is unseated",
    '{"@timestamp": "2025-11-03T09:12:00Z", "log.level": "error", "message": "the ring is unseated"}',
    "[2025-11-03T09:12:00Z ERROR ring] the ring is unseated",
    "[E 251103 09:12:00 web:2271] the ring is unseated",  # Tornado
    "E 09:12:00 ring: the ring is unseated",
    "ERROR:trainer:the ring is unseated",
    "acme.RingError: the ring is unseated",
    "Nov  3 09:12:00 node7 trainer[4412]: RuntimeError: the ring is unseated",
]
NEITHER = [
    "2025-11-03 09:12:00,123 INFO ring closed",
    "step 40 loss 0.31 error_rate 0.02",
    "W1103 09:12:00.123456 140123 ring.py:88] retrying after an error",
    '{"level": 60, "loss": 0.3}',
    '{"level": "info", "msg": "ERROR budget left: 3"}',
    '{"PRIORITY": "6", "MESSAGE": "error budget left"}',
    "Namespace(log_level='critical', error=None)",
    "level=error is what --verbosity 1 shows",
    "NCCL_ASYNC_ERROR_HANDLING=1",
    "val top-1 (err) 23.1",
    "E 12 loss 0.31",
    "[I 251103 09:12:00 web:2271] 200 GET /error",
    "{broken json",
    "",
]


@pytest.mark.parametrize("line", FATAL)
def test_fatal_records(line: str) -> None:
    level, message = level_of(line) or (None, "")
    assert level is Level.FATAL and "the ring is unseated" in message


@pytest.mark.parametrize("line", ERROR)
def test_errors(line: str) -> None:
    level, message = level_of(line) or (None, "")
    assert level is Level.ERROR and "the ring is unseated" in message


@pytest.mark.parametrize("line", NEITHER)
def test_lines_of_no_such_level(line: str) -> None:
    assert level_of(line) is None


def test_a_level_that_is_spoken_of_is_not_fatal() -> None:
    assert level_of("setting the verbosity to CRITICAL") == (Level.ERROR, "setting the verbosity to CRITICAL")


def test_an_error_may_be_followed_by_few_records_and_a_fatal_one_by_more() -> None:
    after = b"2025-11-03 09:12:01 INFO closing files\n"
    found = last_error(b"ok\nERROR: no seat\n    seat 3\n\n" + after * 2)
    assert found is not None and (found.text, found.lines_from_end, found.offset) == ("ERROR: no seat", 5, 3)
    assert last_error(b"ERROR: no seat\n" + after * 20) is None
    assert last_error(b"FATAL: no seat\n" + after * 20) is not None
    assert last_error(b"FATAL: no seat\n" + after * 60) is None


def test_lines_that_go_on_with_the_record_do_not_end_it() -> None:
    found = last_error(b"ok\nERROR: no seat\n    seat 3: 11 of 12\n")
    assert found is not None and found.offset == 3


@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    found = last_error(data)
    assert found is None or 0 <= found.offset <= len(data)


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("Loss is NaN!", True),
        ("2026-11-01 10:00:02 | WARNING | NaN loss detected at step 41", True),
        ("loss became nan at iteration 12", True),
        ("no NaN loss detected", False),
        ("stop if the loss is nan", False),
        ("loss is 2.31", False),
    ],
)
def test_a_loop_that_says_that_its_loss_is_lost(line: str, lost: bool) -> None:
    assert (level_of(line) is not None) is lost
