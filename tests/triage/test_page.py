"""The page of a triage: whole, inert, redacted, bounded, and true to the rows."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.report.own import is_report
from forensics.triage import page
from forensics.triage.batch import count
from forensics.triage.command import Output, write
from forensics.triage.examine import Outcome, Setup
from forensics.triage.insight.model import Concentration, FlakyUnit, HardwareEvent, Insights, Share, UnknownGroup
from forensics.triage.model import Batch, Job, JobResult, Place
from forensics.triage.page import insight, reports, rows
from forensics.triage.page.rows import age_words, common_folder, hours_words, ordered, sure
from forensics.triage.pool import Limits

NOW = 1_790_000_000.0
EVIL = (
    "\x1b]0;x\x07\u202e</td></table></script><script>alert(1)</script><img src=x onerror=alert(1)>\" onload='x' &amp; "
)


def row(path: str, **fields: Any) -> JobResult:
    base: dict[str, Any] = {"layout": "folder", "fingerprint": path, "bytes": 10, "files": 1, "modified": NOW - 3600}
    return JobResult(**(base | {"path": path, "verdict": "healthy"} | fields))


def failed(path: str, root: str = "cuda-oom", **fields: Any) -> JobResult:
    base: dict[str, Any] = {
        "verdict": "failed", "root": root, "roots": (root,), "title": "GPU out of memory", "severity": "fatal",
        "confidence": 0.97, "ranks": (3,), "node": "gpu-b", "step": 412, "time": "2026-09-20T10:00:00Z",
        "evidence": Place(file="rank3.log", line=7, text="torch.OutOfMemoryError: CUDA out of memory."),
        "fix": "Lower the batch size.", "gpu_hours": 12.5,
    }  # fmt: skip
    return row(path, **(base | fields))


def batch(results: Sequence[JobResult], **fields: Any) -> Batch:
    base: dict[str, Any] = {"paths": ("runs",), "causes": count(results), "made": NOW}
    return Batch(results=tuple(results), **(base | fields))


class Reader(HTMLParser):
    """Every element, attribute and piece of text as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []  # cells of each row of the table of jobs
        self._jobs = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "table":
            self._jobs = ("class", "jobs") in attrs
        if tag == "tr" and self._jobs and "tbody" in self.open:
            self.rows.append([])
        if tag == "td" and self._jobs:
            self.rows[-1].append("")
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))
        if self._jobs and "td" in self.open:
            self.rows[-1][-1] += data

    @property
    def shown(self) -> str:
        return " ".join(data for inside, data in self.texts if inside not in ("style", "script"))


def checked(text: str, links: str = r"#[a-z-]+\Z|reports/[0-9a-zA-Z%._-]+\Z") -> Reader:
    """A page in which nothing acts: known elements, no handlers, no address but ours, only our own script."""
    reader = Reader(text)
    assert not reader.open
    assert reader.elements.count("script") == 1
    assert not {"img", "iframe", "object", "link", "base", "foreignobject", "image"} & set(reader.elements)
    for element, name, value in reader.attributes:
        assert not name.startswith("on")
        assert name not in ("style", "src", "srcdoc", "xlink:href", "formaction")
        if name == "href":
            assert value and re.match(links, value), (element, value)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    return reader


def shown(results: Sequence[JobResult], **fields: Any) -> Reader:
    return checked(page.render(page.Page(batch=batch(results, **fields))))


def test_the_policy_admits_the_pages_own_style_and_script_alone() -> None:
    text = page.render(page.Page(batch=batch([failed("runs/a")])))
    reader = checked(text)
    policy = next(v for t, n, v in reader.attributes if t == "meta" and n == "content" and v and "default-src" in v)
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert "form-action 'none'" in policy
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        inside = "".join(data for where, data in reader.texts if where == element)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
        assert "url(" not in inside and "http" not in inside and "innerHTML" not in inside
    assert is_report(text.encode()[: 16 << 10])


def test_rows_and_causes_say_what_was_found() -> None:
    found = [
        failed("runs/b", ranks=(0, 1, 2, 3)),
        failed("runs/a", confidence=0.98),
        row("runs/c", gpu_hours=100.0),
        row("runs/d", verdict=None, error="timeout: more than 300 seconds"),
    ]
    reader = shown(found, notes=("3 files left out",), reports={"runs/a": "reports/a1.html"})
    assert "2 of 4 jobs failed" in reader.shown and "25.0 GPU-hours" in reader.shown
    for text in ("GPU out of memory", "CUDA out of memory.", "Lower the batch size.", "3 files left out", "timeout"):
        assert text in reader.shown
    by_job = {cells[1]: cells for cells in reader.rows}
    assert by_job["a"] == ["cuda-oom", "a", "3", "gpu-b", "412", "98%", by_job["a"][6], "12.5"]
    assert by_job["b"][2] == "0-3"
    assert by_job["dmore than 300 seconds"][0] == "(timeout)"
    assert by_job["c"][0] == "(healthy)" and by_job["c"][7] == "100"
    links = [v for _, n, v in reader.attributes if n == "href" and v and v.startswith("reports")]
    assert links == ["reports/a1.html"] * 2  # of the row, and of the example of its cause


def test_where_all_is_well_nothing_is_called_a_failure() -> None:
    reader = shown([row("runs/a"), row("runs/b", verdict="recovered")])
    assert "0 of 2 jobs failed" in reader.shown and "Most frequent" not in reader.shown
    classes = {v for _, n, v in reader.attributes if n == "class"}
    assert "head good" in classes and not classes & {"bad", "warn", "f-bad"}


def test_a_triage_without_rows_is_a_page() -> None:
    reader = shown([])
    assert "No job meets these filters" in reader.shown and not reader.rows


def _evil(path: str) -> JobResult:
    return failed(
        path, root=EVIL, title=EVIL, node=EVIL, fix=EVIL, codes=(EVIL,), time=EVIL, summary=EVIL, labels={EVIL: EVIL},
        evidence=Place(file=EVIL, line=1, text=EVIL),
    )  # fmt: skip


def test_what_a_log_holds_is_text_everywhere() -> None:
    found = [_evil(f"{EVIL}/{n}") for n in range(3)]
    found.append(row(EVIL, verdict=None, error=f"fault: {EVIL}"))
    text = page.render(page.Page(batch=batch(found, notes=(EVIL,), paths=(EVIL,))))
    checked(text)
    assert "<script>alert" not in text and "onerror=alert(1)&gt;" in text


def test_filters_are_text_too() -> None:
    asked = page.Asked(values=tuple((name, EVIL) for name in ("cause", "node", "verdict", "since")), total=7)
    text = page.render(page.Page(batch=batch([_evil("a")]), asked=asked))
    checked(text, links=r"#[a-z-]+\Z|/\Z|\?cause=[0-9A-Za-z%._+-]+#jobs\Z")
    assert "<script>alert" not in text


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_inert(path: str, said: str) -> None:
    shown([failed(path, node=said, title=said, fix=said), row(said, verdict=None, error=said)], notes=(said,))


def test_failures_come_first_and_the_newest_at_the_top() -> None:
    found = [
        row("ok"),
        failed("old", time="2026-01-01T00:00:00Z"),
        row("error", verdict=None, error="nothing: no files", modified=None),
        failed("new", time="2026-09-20T00:00:00Z"),
    ]
    assert [r.path for r in ordered(found)] == ["new", "old", "error", "ok"]


def test_a_page_is_bounded_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_ROWS", 25)
    monkeypatch.setattr(rows, "FIRST", 4)
    monkeypatch.setattr(rows, "PART", 10)
    reader = shown([failed(f"runs/{n}") for n in range(40)])
    assert len(reader.rows) == 25
    assert "15 more jobs" in reader.shown
    titles = [data for inside, data in reader.texts if inside == "summary"]
    assert [t for t in titles if t.startswith("Jobs")] == ["Jobs 5 to 14", "Jobs 15 to 24", "Jobs 25 to 25"]


def test_a_row_takes_a_few_hundred_bytes() -> None:
    def size(n: int) -> int:
        return len(page.render(page.Page(batch=batch([failed(f"/data/sweep/lr=3e-4,seed={i}") for i in range(n)]))))

    assert (size(600) - size(200)) / 400 < 250


@given(st.lists(st.text("ab/", max_size=8), max_size=5))
def test_the_common_folder_is_one_of_all_paths(paths: list[str]) -> None:
    folder = common_folder(paths)
    assert all(p.startswith(folder) for p in paths) or not paths
    assert not folder or folder.endswith("/")


def test_numbers_in_words() -> None:
    assert [sure(c) for c in (None, 1.0, 0.999, 0.5)] == [None, "100%", "99%", "50%"]
    assert [age_words(h) for h in (0.2, 5.4, 47.0, 72.0)] == ["12m", "5h", "47h", "3d"]
    assert [hours_words(h) for h in (None, 0.0, 0.001, 0.024, 3.46, 1250.3)] == [
        None, "0", "<0.01", "0.024", "3.5", "1,250",
    ]  # fmt: skip


def test_a_file_is_redacted_unless_asked_not_to(tmp_path: Path) -> None:
    secret = "hf_" + "aB3" * 10
    found = batch(
        [failed("runs/a", node="dgx-17.corp.example", fix=f"token={secret}")],
        reports={"runs/a": "reports/a1.html"},
        jobs={"runs/a": Job(path="runs/a", layout="folder", parts=("/home/mallory/runs/a",))},
    )
    for redact, hidden in ((None, True), (True, True), (False, False)):
        write(found, Output("html", tmp_path / "t.html", None, 80), redact)
        text = (tmp_path / "t.html").read_text("utf-8")
        assert (secret not in text) == hidden
        assert ("dgx-17" not in text) == hidden
        assert "mallory" not in text and "reports/a1.html" in text
        assert ("stand-ins" in checked(text).shown) == hidden


def test_a_name_is_hidden_also_in_rows_before_the_one_that_gives_it_away(tmp_path: Path) -> None:
    found = batch([failed("runs/a", title="The cache of zbigniewk is full"), failed("/home/zbigniewk/b")])
    write(found, Output("html", tmp_path / "t.html", None, 80), None)
    assert "zbigniewk" not in (tmp_path / "t.html").read_text("utf-8")


# --- what shows only over many jobs ---


def group(name: str, jobs: Sequence[str], **fields: Any) -> UnknownGroup:
    base: dict[str, Any] = {
        "aliases": (name,), "title": "KeyError in load_shard", "exception": "KeyError", "template": "no shard <n>",
        "frames": ("data.py load_shard", "train.py main"), "representative": jobs[0], "line": "KeyError: 'no shard 7'",
        "gpu_hours": 7.5, "gpu_hours_known": 1, "first": "2026-09-01T00:00:00Z",
    }  # fmt: skip
    return UnknownGroup(**(base | {"name": name, "jobs": tuple(jobs)} | fields))


def concentration(cause: str, jobs: Sequence[str], **fields: Any) -> Concentration:
    base: dict[str, Any] = {
        "factor": "node", "value": "gpu-b", "numeric": False, "inside": Share(hits=4, jobs=5),
        "outside": Share(hits=1, jobs=400), "ratio": 320.0, "low": 44.0, "high": 2300.0, "p": 1e-9, "adjusted": 2e-7,
        "tried": 212,
    }  # fmt: skip
    return Concentration(**(base | {"cause": cause, "jobs": tuple(jobs)} | fields))


def event(job: str, seconds: float | None, **fields: Any) -> HardwareEvent:
    base: dict[str, Any] = {"cause": "gpu-fell-off-bus", "role": "root", "what": "Xid 79", "counted": True}
    return HardwareEvent(**({"job": job, "seconds": seconds, "time": "2026-09-20T10:00:00Z"} | base | fields))


def unit(name: str, events: Sequence[HardwareEvent], **fields: Any) -> FlakyUnit:
    base: dict[str, Any] = {
        "kind": "node", "node": name, "bus_id": None, "serial": None, "index": None, "advice": "drain", "incidents": 2,
        "here": Share(hits=2, jobs=3), "elsewhere": Share(hits=1, jobs=500), "ratio": 333.0, "low": 40.0,
        "high": 2700.0, "p": 1e-6, "adjusted": 1e-4, "causes": (("gpu-fell-off-bus", 2),),
    }  # fmt: skip
    jobs = tuple(e.job for e in events if e.counted)
    return FlakyUnit(**(base | {"name": name, "events": tuple(events), "jobs": jobs} | fields))


def seen() -> Insights:
    return Insights(
        unknown=(group("keyerror-load_shard-01", ["runs/a", "runs/b"]),),
        concentrations=(concentration("cuda-oom", ["runs/a"], same=(("image", "train:2"),)),),
        hardware=(
            unit("gpu-b", [event("runs/a", NOW - 9e5), event("runs/b", NOW - 5e5, role="context", counted=False)]),
        ),
        tried=212,
        notes=("three factors were not looked at",),
    )


def test_what_shows_over_many_jobs_is_shown_with_its_evidence() -> None:
    reader = shown([failed("runs/a"), failed("runs/b"), row("runs/c", node="gpu-b")], insights=seen())
    said = " ".join(reader.shown.split())
    for text in (
        "keyerror-load_shard-01", "no shard <n>", "data.py load_shard", "KeyError: 'no shard 7'", "7.5", "2026-09-01",
        "node = gpu-b", "image = train:2", "4 of 5 (80%)", "1 of 400 (0.25%)", "320 (44 to 2,300)", "<0.001", "212 tests",
        "DRAIN", "2 of 3 (67%) of the jobs here, 1 of 500 (0.2%) elsewhere; 333 (40 to 2,700) times as often",
        "gpu-fell-off-bus (2)", "Xid 79", "survived", "three factors were not looked at",
    ):  # fmt: skip
        assert text in said, text


def test_jobs_are_found_by_all_their_nodes_and_by_their_group() -> None:
    insights = Insights(
        unknown=(group("keyerror-load-01", [f"runs/{n}" for n in range(20)]),), hardware=(unit("n7", []),)
    )
    many = [failed(f"runs/{n}", node="gpu-b" if n else None, nodes=("gpu-b", "n7")) for n in range(20)]
    reader = shown([*many, row("runs/x")], insights=insights)
    also = [v for t, n, v in reader.attributes if t == "tr" and n == "data-also"]
    assert sorted(also) == ["gpu-b n7 keyerror-load-01", *["n7 keyerror-load-01"] * 19]
    found = {v for t, n, v in reader.attributes if t == "a" and n == "data-find"}
    assert found == {"keyerror-load-01", "n7"} and "8 more" in reader.shown


def test_a_timeline_has_a_mark_for_each_time_in_its_order() -> None:
    reader = shown([failed("runs/a"), failed("runs/b"), row("runs/c", node="gpu-b", modified=NOW)], insights=seen())
    marks = {}
    for kind in ("bad", "warn", "quiet"):
        places = [
            i for i, (t, n, v) in enumerate(reader.attributes) if t == "line" and n == "class" and v == f"s-{kind}"
        ]
        marks[kind] = [float(v or 0) for i in places for _, n, v in reader.attributes[i - 6 : i] if n == "x1"]
    assert [len(v) for v in marks.values()] == [1, 1, 1]
    assert marks["bad"] < marks["warn"] < marks["quiet"]


@pytest.mark.parametrize("times", [(), (NOW,), (NOW, NOW), (-1e18, 1e18), (0.0, float(2**53))])
def test_any_times_are_drawn(times: tuple[float, ...]) -> None:
    events = [event("a", t) for t in times] + [event("a", None, time=None)]
    shown([row("a")], insights=Insights(hardware=(unit("gpu-b", events),)))


def test_nothing_is_said_where_nothing_was_found() -> None:
    reader = shown([failed("runs/a")], insights=Insights(tried=40))
    ids = {v for t, n, v in reader.attributes if t == "section" and n == "id"}
    assert ids == {"causes", "jobs"}


def test_groups_hold_text_of_logs_as_text() -> None:
    evil = Insights(
        unknown=(group(EVIL, [EVIL], title=EVIL, exception=EVIL, template=EVIL, frames=(EVIL,), line=EVIL, first=EVIL),),
        concentrations=(concentration(EVIL, [EVIL], factor=EVIL, value=EVIL, same=((EVIL, EVIL),)),),
        hardware=(unit(EVIL, [event(EVIL, NOW, time=EVIL, cause=EVIL, role=EVIL, what=EVIL)], kind=EVIL, advice=EVIL,
                       bus_id="x" + EVIL, causes=((EVIL, 1),)),),
        notes=(EVIL,),
    )  # fmt: skip
    text = page.render(page.Page(batch=batch([_evil(EVIL)], insights=evil)))
    checked(text)
    assert "<script>alert" not in text


def test_many_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insight, "_MOST", 3)
    monkeypatch.setattr(insight, "_MEMBERS", 2)
    many = Insights(
        unknown=tuple(group(f"g{n}", ["a", "b", "c", "d"]) for n in range(5)),
        concentrations=tuple(concentration(f"c{n}", ["a"]) for n in range(6)),
        hardware=tuple(unit(f"n{n}", [event("a", NOW)]) for n in range(7)),
    )
    said = shown([failed("a")], insights=many).shown
    assert "2 more groups" in said and "3 more concentrations" in said and "4 more units" in said
    assert "and 2 more" in said and "g3" not in said and "n3" not in said


def test_groups_are_redacted_with_the_stand_ins_of_the_rows(tmp_path: Path) -> None:
    host, secret = "dgx-17.corp.example", "hf_" + "aB3" * 10
    path = "/home/zbigniewk/runs/a"
    found = Insights(
        unknown=(group("keyerror-01", [path], title=f"cannot reach {host}", line=f"token={secret}", template=secret),),
        concentrations=(concentration("cuda-oom", [path], value=host, same=(("image", f"{host}/train"),)),),
        hardware=(unit(host, [event(path, NOW, what=f"Xid 79 on {host}")]),),
        notes=(f"{host} was left out",),
    )
    rows = batch([failed(path, node=host), failed("runs/b")], insights=found, reports={path: "reports/a1.html"})
    write(rows, Output("html", tmp_path / "t.html", None, 80), None)
    text = (tmp_path / "t.html").read_text("utf-8")
    for hidden in ("dgx-17", "zbigniewk", secret):
        assert hidden not in text
    assert text.count("host-1") >= 4 and text.count('href="reports/a1.html"') >= 4


# --- reports of jobs, in a folder ---


def _pages(jobs: Any, setup: Setup, **options: Any) -> Iterator[Outcome]:
    """Pages without analysis or processes."""
    for job in jobs:
        bad = "bad" in job.path
        text = f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="forensics 1">{job.path}'
        error = "timeout: more than 1 seconds" if bad else None
        yield Outcome(path=job.path, quick="", fingerprint="", modified=None, report=text.encode(), error=error)


def _written(found: Batch, folder: Path, beside: Path, recipe: str = "r") -> Batch:
    return reports.write_reports(
        found, folder, beside, Setup(recipe=recipe), redact=True, workers=1, limits=Limits(1.0)
    )


def _with_jobs(results: Sequence[JobResult]) -> Batch:
    jobs = {r.path: Job(path=r.path, layout="folder", parts=(r.path,)) for r in results}
    return batch(results, jobs=jobs)


def test_reports_of_failed_jobs_are_written_and_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "pages", _pages)
    found = _with_jobs([failed("runs/a"), row("runs/ok"), failed("runs/bad"), row("runs/e", error="nothing: no files")])
    done = _written(found, tmp_path / "some reports#1", tmp_path)
    assert list(done.reports) == ["runs/a"]
    link = done.reports["runs/a"]
    assert re.fullmatch(r"some%20reports%231/[0-9a-f]{20}\.html", link)
    assert (tmp_path / "some reports#1" / link.rpartition("/")[2]).read_text().endswith("runs/a")
    assert [p.name for p in (tmp_path / "some reports#1").iterdir()] == [link.rpartition("/")[2]]
    assert "1 report could not be made" in done.notes[-1]


def test_what_is_there_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def noted(jobs: Any, setup: Setup, **options: Any) -> Iterator[Outcome]:
        for outcome in _pages(jobs, setup, **options):
            made.append(outcome.path)
            yield outcome

    monkeypatch.setattr(reports, "pages", noted)
    found = _with_jobs([failed("a"), failed("b")])
    first = _written(found, tmp_path, tmp_path)
    assert _written(found, tmp_path, tmp_path).reports == first.reports and made == ["a", "b"]
    changed = _with_jobs([failed("a"), failed("b", fingerprint="other")])
    assert _written(changed, tmp_path, tmp_path).reports["a"] == first.reports["a"] and made[2:] == ["b"]
    _written(found, tmp_path, tmp_path, recipe="newer")
    assert made[3:] == ["a", "b"]


def test_jobs_with_the_same_content_have_a_report_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "pages", _pages)
    found = _with_jobs([failed("a", fingerprint="f"), failed("b", fingerprint="f")])
    for _ in range(2):
        done = _written(found, tmp_path, tmp_path)
        for path, link in done.reports.items():
            assert (tmp_path / link.removeprefix("./")).read_text().endswith(path)


def test_a_name_tells_nothing_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "pages", _pages)
    names = [
        _written(_with_jobs([failed(path, fingerprint="f")]), tmp_path / path, tmp_path / path).reports[path]
        for path in ("a", "b")
    ]
    assert names[0] == names[1]


def test_reports_that_cannot_be_written_are_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "pages", _pages)
    (tmp_path / "file").write_text("x")
    with pytest.raises(reports.CannotReport, match="file"):
        _written(_with_jobs([failed("a")]), tmp_path / "file" / "reports", tmp_path)


def test_from_folders_to_a_page_with_reports(tmp_path: Path) -> None:
    from forensics.cli import main

    for name, text in (("a", "step 1 loss 2.0\ntorch.OutOfMemoryError: CUDA out of memory.\n"), ("b", "")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "x.log").write_text(text)
    target = tmp_path / "out.html"
    common = ["triage", str(tmp_path / "runs"), "--store", str(tmp_path / "s.sqlite"), "-q", "-j", "1"]
    done = CliRunner().invoke(main, [*common, "-o", str(target), "--reports", str(tmp_path / "reports")])
    assert done.exit_code == 0, done.output
    reader = checked(target.read_text("utf-8"))
    link = next(v for _, n, v in reader.attributes if n == "href" and v and v.startswith("reports/"))
    assert "cuda-oom" in (tmp_path / link).read_text("utf-8")
    refused = CliRunner().invoke(main, [*common, "--reports", str(tmp_path / "runs" / "reports")])
    assert refused.exit_code == 2 and "nothing is written" in refused.output
    assert sorted(p.name for p in (tmp_path / "runs").rglob("*")) == ["a", "b", "x.log", "x.log"]
