"""`forensics watch --redact` takes out what `analyze --redact` does, in lines, JSON and what a command is given."""

from __future__ import annotations

import sys
from pathlib import Path

from click.testing import CliRunner

from forensics.cli import main
from forensics.model import Evidence, Kind, Source
from forensics.watch.news import News, Sign, State
from forensics.watch.redacted import Redacting

SECRET = "Zq3Lx8Vw2Kp7Tn5Rb9Yc"
LOG = f"""2026-11-01 10:00:00 INFO step 1 loss: 2.98
zebra17:4242:4300 [0] NCCL INFO Bootstrap : Using eth0:10.44.3.17<0>
saving to /home/qkowalski/ckpt
aws_secret_access_key = {SECRET}
Traceback (most recent call last):
  File "/opt/train.py", line 60, in main
    client.upload(x)
ValueError: upload by qkowalski from zebra17 failed with {SECRET}
"""


def test_lines_json_commands_and_the_path_name_nobody(tmp_path: Path) -> None:
    run = tmp_path / "zebra17-qkowalski"
    run.mkdir()
    (run / "zebra17-qkowalski.log").write_text(LOG)
    taken = tmp_path / "taken"
    script = f"import os,sys; open({str(taken)!r}, 'w').write(sys.stdin.read() + str(os.environ))"
    command = f'{sys.executable} -c "{script}"'
    shown = []
    for extra in ((), ("--format", "jsonl", "--exec", command)):
        done = CliRunner().invoke(main, ["watch", str(run), "--once", "--redact", *extra])
        assert "ValueError" in done.output
        shown.append(done.output)
    given = taken.read_text()
    assert "FORENSICS_TEXT" in given
    # The environment of the command holds that of the test, and so only what forensics added is looked at.
    shown.append(given.partition("\n")[0])
    for text in shown:
        assert not [word for word in ("zebra17", "qkowalski", SECRET, "10.44.3.17") if word in text]


def test_lines_that_come_later_are_learnt_from(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1\n")
    redacting = Redacting(lambda: [Source("train.log", log, Kind.LOG, log.stat().st_size)])
    sign = Sign(
        name="python-exception",
        title="An exception",
        severity="fatal",
        kind="symptom",
        evidence=Evidence("train.log", 1, 0, f"bad {SECRET}"),
    )
    news = News(State.STARTED, sign, 1.0)
    before = redacting.news(news).sign.evidence
    assert before is not None and SECRET in before.text
    log.write_text(f"step 1\nsecret_key: {SECRET}\n")
    after = redacting.news(news).sign.evidence
    assert after is not None and after.text == "bad secret-1"
