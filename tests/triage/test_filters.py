"""What --cause, --fail-on and --verdict may name, and what the command line says of anything else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.cli import main
from forensics.cli.ending import exit_status
from forensics.model import Verdict
from forensics.signatures.schema import Signature, load_catalogue
from forensics.triage.filters import CONDITIONS, Filter, Unknown, check_causes, check_verdicts, failing, moment
from tests.triage.rows import row


@pytest.fixture(scope="module")
def catalogue() -> dict[str, Signature]:
    return load_catalogue(examples=False)


def test_slugs_codes_globs_and_brackets_are_known(catalogue: dict[str, Signature]) -> None:
    code = next(code for s in catalogue.values() for code in s.codes)
    check_causes(("cuda-oom", code, "nccl-*", "no-such-*", "(healthy)", "(timeout)"), catalogue)
    check_causes(("any", "never", "fatal"), catalogue, (*CONDITIONS, "fatal"))


@pytest.mark.parametrize(
    ("wrong", "said"), [("cuda-omo", "cuda-oom"), ("anny", "any"), ("ANY", "any"), ("(x", "healthy")]
)
def test_mistyped_causes(catalogue: dict[str, Signature], wrong: str, said: str) -> None:
    with pytest.raises(Unknown, match=said):
        check_causes((wrong,), catalogue, CONDITIONS)


def test_conditions_are_no_causes(catalogue: dict[str, Signature]) -> None:
    with pytest.raises(Unknown):
        check_causes(("any",), catalogue)


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("any", {"failed", "hung", "diverged", "suspect", "interrupted", "error"}),
        ("failed", {"failed"}),
        ("never", set()),
    ],
)
def test_what_each_word_of_fail_on_covers(condition: str, met: set[str]) -> None:
    """Of the command line of both commands, which say so in their help and docs."""
    rows = [row(n, verdict=v.value) for n, v in enumerate(Verdict)] + [row(99, verdict=None, error="timeout: x")]
    assert {r.verdict or "error" for r in rows if failing((condition,))(r)} == met
    for verdict in Verdict:
        status = exit_status(verdict, condition)
        assert (status == 1) == (verdict.value in met)
        assert verdict is not Verdict.UNKNOWN or status == (0 if condition == "never" else 3)


def test_verdicts() -> None:
    check_verdicts(("healthy", "failed", "error"))
    with pytest.raises(Unknown, match="healthy"):
        check_verdicts(("helthy",))


@pytest.mark.parametrize(
    "given",
    [("--fail-on", "cuda-omo"), ("--cause", "cuda-omo"), ("--verdict", "fialed"), ("--exclude", "*"), ("-o", "x.csv")],
)
def test_wrong_usage_ends_with_2_before_any_job(tmp_path: Path, given: tuple[str, str]) -> None:
    jobs = tmp_path / "jobs"
    (jobs / "a").mkdir(parents=True)
    (jobs / "a/x.log").write_text("step 1\n")
    option, value = given
    value = str(jobs / value) if option == "-o" else value
    made = CliRunner().invoke(main, ["triage", str(jobs), "--store", str(tmp_path / "s.sqlite"), option, value])
    assert made.exit_code == 2, made.output
    assert "Traceback" not in made.output and [p.name for p in jobs.iterdir()] == ["a"]


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("stated", "modified", "hour"),
    [
        ("2026-01-10T12:00:00Z", None, 12),
        ("2026-01-10T12:00:00+02:00", None, 10),
        ("2026-01-10T12:00:00", None, 17),  # this machine's zone
        ("2026-01-10T12:00:00", 17, 17),
        ("2026-01-10T12:00:00", 12, 12),  # as UTC it is when the file was written
        ("2026-01-10T12:00:00", 23, 17),  # files that were copied tell nothing
    ],
)
def test_times_without_a_zone(stated: str, modified: int | None, hour: int) -> None:
    day = datetime(2026, 1, 10, tzinfo=UTC).timestamp()
    changed = day + modified * 3600 + 60 if modified is not None else None
    assert moment(row(1, "cuda-oom", time=stated, modified=changed)) == day + hour * 3600


def test_a_node_is_met_with_its_domain_too() -> None:
    """Rows have one name for a host that files name in two ways."""
    job = row(1, nodes=("dgx17", "dgx18"))
    assert (
        Filter(node=("dgx17.hpc.uni.example",))(job) and Filter(node=("dgx1*",))(job) and Filter(node=("dgx18",))(job)
    )
    assert not Filter(node=("dgx1.hpc.uni.example",))(job) and not Filter(node=("10.0.0.4",))(row(2, nodes=("10",)))
    full = row(3, nodes=("n1.a.example",))
    assert Filter(node=("n1.a.example",))(full) and not Filter(node=("n1.b.example",))(full)
