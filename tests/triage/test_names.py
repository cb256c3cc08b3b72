"""Names that only lines no row shows give away: hidden in each row of a page."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from forensics.cli import main
from forensics.triage import codec
from forensics.triage.names import LONGEST, MOST_NAMES, names_of
from forensics.triage.page.server import Site
from forensics.triage.redacted import redacted
from tests.triage.test_page import batch, failed
from tests.triage.test_serve import Fake

TOLD = ("USER=zbigniewk", "quarkbox17:42:42 [0] NCCL INFO Bootstrap : Using eth0")
BARE = "cannot write ckpt-zbigniewk/step-7 on quarkbox17"


def triaged(tmp_path: Path, *arguments: str) -> str:
    store = tmp_path / "s.sqlite"
    done = CliRunner().invoke(main, ["triage", str(tmp_path / "jobs"), "--store", str(store), *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_page_hides_what_other_lines_of_its_jobs_tell(tmp_path: Path) -> None:
    for number in range(10):
        folder = tmp_path / "jobs" / f"exp{number}"
        folder.mkdir(parents=True)
        lines = [*TOLD, *(f"step {n} loss {n / 7:.3f}" for n in range(number)), f"mylib.errors.ShardError: {BARE}"]
        (folder / "train.log").write_text("\n".join(lines) + "\n")
    assert "zbigniewk" in triaged(tmp_path, "--format", "csv")
    for form in ("markdown", "github", "csv", "json", "jsonl"):
        text = triaged(tmp_path, "--format", form, "--redact")
        assert "zbigniewk" not in text and "quarkbox17" not in text, form
    triaged(tmp_path, "-o", str(tmp_path / "t.html"))
    text = (tmp_path / "t.html").read_text("utf-8")
    assert "zbigniewk" not in text and "quarkbox17" not in text
    assert '"names"' not in triaged(tmp_path, "--format", "jsonl")


def test_a_served_page_hides_them_too() -> None:
    names = names_of(failed("", summary=BARE), TOLD)
    found = batch([failed("runs/a", summary=BARE, names=names), failed("runs/zbigniewk-b", names=names)])
    body = Site(found, redacted(found), Fake().report, redacted=True).answer("/", "").body.decode()
    assert "zbigniewk" not in body and "quarkbox17" not in body


def test_a_row_keeps_what_it_shows_and_no_secret_that_it_does_not() -> None:
    row = failed("", summary="cannot write ckpt-zbigniewk/")
    names = names_of(row, [*TOLD, "DB_PASSWORD=hunter2hunter2"])
    assert ("user", "zbigniewk") in names
    assert not any("hunter2" in name for _, name in names)
    assert names_of(row, ["step 7 loss 0.3", "a line of no user"]) == ()


def test_names_are_bounded_and_come_back_from_the_store() -> None:
    lines = [f"USER=qzperson{n:04d}" for n in range(500)]
    names = names_of(failed("", summary=" ".join(line[5:] for line in lines)), lines)
    assert 0 < len(names) <= MOST_NAMES
    assert all(len(name) <= LONGEST for _, name in names)
    assert codec.loads(codec.dumps(failed("runs/a", names=names))).names == names


def test_namespaces_are_kept_for_the_path() -> None:
    log = f"bert-master-0_team-q7_pytorch-{'0a' * 32}.log"
    assert ("namespace", "team-q7") in names_of(failed("", summary="KeyError: 'x'"), [log])
