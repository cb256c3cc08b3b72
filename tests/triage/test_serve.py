"""The served page: what it answers, and what nobody gets from it."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.triage import command
from forensics.triage.batch import Options
from forensics.triage.examine import Outcome, Setup
from forensics.triage.filters import Filter
from forensics.triage.insight.model import Insights
from forensics.triage.model import Batch, Job
from forensics.triage.page import reports, server
from forensics.triage.page.query import BadQuery, parse
from forensics.triage.page.reports import Busy, Maker
from forensics.triage.page.server import Site
from forensics.triage.pool import Limits
from forensics.triage.redacted import redacted
from tests.triage.test_page import NOW, batch, checked, failed, group, row, seen

LINKS = r"#[a-z-]+\Z|/\Z|\?(?:cause|node)=[0-9A-Za-z%._+-]+#jobs\Z|/report/[0-9a-f]{24}\Z"
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Fake:
    """A maker that notes what it is asked for."""

    def __init__(self, outcome: Outcome | Exception | None = None) -> None:
        self.asked: list[str] = []
        self.outcome = outcome

    def report(self, job: Job) -> Outcome:
        self.asked.append(job.path)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if self.outcome is not None:
            return self.outcome
        return outcome_of(job, f"report of {job.path}")


def outcome_of(job: Job, text: str, error: str | None = None) -> Outcome:
    return Outcome(path=job.path, quick="", fingerprint="", modified=None, report=text.encode(), error=error)


def rows() -> Batch:
    found = [
        failed("runs/a", labels={"lr": "0.1"}),
        failed("runs/b", root="nccl-timeout", node="gpu-c"),
        row("runs/ok"),
        row("runs/empty", verdict=None, error="nothing: no files"),
    ]
    return batch(found, jobs={r.path: Job(path=r.path, layout="folder", parts=(r.path,)) for r in found})


def site(found: Batch | None = None, maker: Fake | None = None, *, hide: bool = False) -> Site:
    found = found if found is not None else rows()
    return Site(found, redacted(found) if hide else found, (maker or Fake()).report, redacted=hide)


def page_of(where: Site, query: str = "") -> str:
    answer = where.answer("/", query)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def report_of(text: str, job: str) -> str:
    found = re.search(rf'<a href="(/report/[0-9a-f]{{24}})">{re.escape(job)}</a>', text)
    assert found is not None
    return found[1]


# --- what is answered ---


def test_each_job_that_was_analysed_is_linked_to_its_report() -> None:
    maker = Fake()
    where = site(maker=maker)
    text = page_of(where)
    checked(text, LINKS)
    for job in ("a", "b", "ok"):
        answer = where.answer(report_of(text, job), "")
        assert (answer.status, answer.body.decode()) == (200, f"report of runs/{job}")
    assert maker.asked == ["runs/a", "runs/b", "runs/ok"]
    assert len(set(re.findall(r"/report/[0-9a-f]{24}", text))) == 3


@pytest.mark.parametrize(
    ("query", "jobs"),
    [
        ("", {"a", "b", "ok", "empty"}),
        ("cause=nccl-*", {"runs/b"}),
        ("cause=nccl-*&cause=cuda-oom", {"a", "b"}),
        ("node=gpu-b&cause=", {"runs/a"}),
        ("verdict=error", {"runs/empty"}),
        ("severity=warning", {"a", "b"}),
        ("label=lr%3D0.1", {"runs/a"}),
        ("path=*/o?", {"runs/ok"}),
        ("since=2026-09-25", set()),
    ],
)
def test_filters_are_those_of_the_command_line(query: str, jobs: set[str]) -> None:
    found = rows()
    found = replace(found, results=tuple(replace(r, modified=1.7e9) for r in found.results))
    reader = checked(page_of(site(found), query), LINKS)
    assert {re.sub("no files$", "", cells[1]) for cells in reader.rows} == jobs


def test_counts_are_those_of_the_filtered_rows_and_dates_those_of_all() -> None:
    found = rows()
    causes = tuple(replace(c, first="2025-01-02T03:04:05Z") for c in found.causes)
    text = page_of(site(replace(found, causes=causes)), "cause=nccl-timeout")
    shown = checked(text, LINKS).shown
    assert "1 of 1 job failed" in shown and "4 without the filters" in shown and "2025-01-02" in shown
    assert "cuda-oom" not in shown


def test_groups_of_a_filtered_page_are_those_of_its_jobs() -> None:
    where = site(replace(rows(), insights=seen()))
    assert "keyerror-load_shard-01" in page_of(where) and "without the filters" not in page_of(where)
    shown = checked(page_of(where, "path=runs/b"), LINKS).shown
    assert "keyerror-load_shard-01" in shown and "DRAIN" in shown and "320 (44" not in shown
    assert "counted over all of them" in shown
    assert "DRAIN" not in checked(page_of(where, "path=runs/ok"), LINKS).shown


def test_a_group_is_a_filter() -> None:
    unknown = (group("keyerror-load-0123abcd", ["runs/b"]),)
    found = batch([failed("runs/a"), failed("runs/b")], insights=Insights(unknown=unknown))
    text = page_of(site(found), "cause=keyerror-load-0123abcd")
    assert "runs/b" in text and "runs/a" not in text


@pytest.mark.parametrize(
    "query",
    [
        "nodes=a",
        "verdict=helthy",
        "cause=keyerror-load-0123abcd",
        "severity=bad",
        "since=soon",
        "since=1h&since=2h",
        "cause=" + "a" * 201,
        "&".join(["cause=a"] * 41),
    ],
)
def test_what_is_no_filter_is_refused_with_a_reason(query: str) -> None:
    answer = site().answer("/", query)
    assert answer.status == 400 and len(answer.body) > 10 and answer.kind.startswith("text/plain")


def test_a_cause_that_there_is_not_is_refused_as_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Site] = []
    monkeypatch.setattr(server, "serve", lambda site, **_: made.append(site))
    options = Options(limits=Limits(), engine=lambda tasks, setup: iter(()))
    command.serve(batch([failed("runs/a", root="of-an-older-catalogue")]), ["runs"], options, redact=None, port=None)
    answer = made[0].answer("/", "cause=cuda-omo")
    assert answer.status == 400 and b"did you mean cuda-oom" in answer.body
    for query in ("cause=disk-full", "cause=nccl-*", "cause=(healthy)", "cause=of-an-older-catalogue", "cause=M16"):
        assert made[0].answer("/", query).status == 200, query


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"(cause|node|since|severity|label)=[\x00-\xff%]{0,20}", fullmatch=True))
def test_any_query_is_a_filter_or_refused(query: str) -> None:
    try:
        wanted, values = parse(query, NOW)
    except BadQuery as error:
        assert str(error)
        return
    assert isinstance(wanted, Filter)
    wanted(failed("a"))
    text = page_of(site(), "&".join(f"{quote(n)}={quote(v)}" for n, v in values))
    checked(text, LINKS)


def test_what_a_report_lacks_is_said_and_redacted() -> None:
    error = "unreadable: /home/mallory/runs: no such file"
    maker = Fake(Outcome(path="", quick="", fingerprint="", modified=None, error=error))
    for hide in (False, True):
        where = site(maker=maker, hide=hide)
        answer = where.answer(report_of(page_of(where), "a"), "")
        assert answer.status == 502 and (b"mallory" in answer.body) != hide and b"unreadable" in answer.body


def test_a_redacted_site_is_asked_by_stand_ins() -> None:
    found = rows()
    found = replace(found, results=(replace(found.results[0], node="dgx-17.corp.example"), *found.results[1:]))
    where = site(found, hide=True)
    text = page_of(where)
    assert "dgx-17" not in text and "host-1" in text
    assert len(checked(page_of(where, "node=dgx-17.corp.example"), LINKS).rows) == 0
    assert len(checked(page_of(where, "node=host-1"), LINKS).rows) == 1


# --- what nobody gets ---


@pytest.mark.parametrize(
    "path",
    [
        "/report/", "/report/..", "/report/../../etc/passwd", "/report/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/etc/passwd",
        "/report/runs/a", "/report/runs%2fa", "/report/" + "0" * 24, "/report/" + "0" * 24 + "/..", "/..", "//", "",
        "/report/" + "0" * 24 + "%00", "/report/" + "0" * 24 + "\n", "/report\\..\\x", "http://127.0.0.1/", "/index.html",
        "/%2e", "/./", "/report/" + "0" * 23 + "G", "*", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_table(path: str) -> None:
    maker = Fake()
    assert site(maker=maker).answer(path, "").status == 404
    assert maker.asked == []


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_path_but_those_of_the_page_is_unknown(path: str) -> None:
    maker = Fake()
    if path != "/":
        assert site(maker=maker).answer(path, "").status == 404
    assert maker.asked == []


def _in_process(jobs: Any, setup: Setup, **options: Any) -> Iterator[Outcome]:
    """Pages that quote everything below a job, made without a process."""
    for job in jobs:
        files = sorted(p for part in job.parts for p in Path(part).rglob("*") if p.is_file())
        yield outcome_of(job, "".join(p.read_text() for p in files))


def _maker(*given: Path, seconds: float = 9.0) -> Maker:
    return Maker(Setup(), Limits(seconds), redact=False, given=[str(path) for path in given])


def _job(path: Path) -> Job:
    return Job(path=str(path), layout="folder", parts=(str(path),))


def test_a_link_that_takes_a_jobs_place_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "pages", _in_process)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/key").write_text("SECRET")
    (tmp_path / "runs/a").mkdir(parents=True)
    maker = _maker(tmp_path / "runs")
    assert maker.report(_job(tmp_path / "runs/a")).error is None
    (tmp_path / "runs/a").rmdir()
    (tmp_path / "runs/a").symlink_to(tmp_path / "outside")
    outcome = maker.report(_job(tmp_path / "runs/a"))
    assert outcome.error is not None and outcome.error.startswith("unreadable") and outcome.report == b""


def test_given_paths_may_be_links_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "pages", _in_process)
    (tmp_path / "real/a").mkdir(parents=True)
    (tmp_path / "runs").symlink_to(tmp_path / "real")
    assert _maker(tmp_path / "runs").report(_job(tmp_path / "runs/a")).error is None


# --- reports are bounded ---


def test_a_report_is_kept_until_its_files_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def noted(jobs: Any, setup: Setup, **options: Any) -> Iterator[Outcome]:
        for outcome in _in_process(jobs, setup, **options):
            made.append(outcome.path)
            yield outcome

    monkeypatch.setattr(reports, "pages", noted)
    (tmp_path / "a").mkdir()
    log = tmp_path / "a/x.log"
    log.write_text("one")
    os.utime(log, (1.7e9, 1.7e9))
    maker = _maker(tmp_path)
    assert [maker.report(_job(tmp_path / "a")).report for _ in range(3)] == [b"one"] * 3
    assert len(made) == 1
    log.write_text("two and more")
    assert maker.report(_job(tmp_path / "a")).report == b"two and more"


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "pages", _in_process)
    monkeypatch.setattr(reports, "KEPT", 5_000)
    maker = _maker(tmp_path)
    for n in range(9):
        (tmp_path / f"{n}").mkdir()
        log = tmp_path / f"{n}/x.log"
        log.write_text("x" * 1_000)
        os.utime(log, (1.7e9, 1.7e9))
        maker.report(_job(tmp_path / f"{n}"))
    assert len(maker._kept) == 2


def test_one_report_is_made_at_a_time_and_closing_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()
    limits: list[Limits] = []

    def slow(jobs: Any, setup: Setup, **options: Any) -> Iterator[Outcome]:
        limits.append(options["limits"])
        assert options["workers"] == 1
        began.set()
        while not options["stopped"]():
            time.sleep(0.01)
        yield from ()

    monkeypatch.setattr(reports, "pages", slow)
    monkeypatch.setattr(reports, "WAIT", 0.05)
    maker = _maker(tmp_path, seconds=7.0)
    ended: list[type[BaseException]] = []

    def ask() -> None:
        try:
            maker.report(_job(tmp_path))
        except Busy as error:
            ended.append(type(error))

    first = threading.Thread(target=ask)
    first.start()
    assert began.wait(5)
    with pytest.raises(Busy):
        maker.report(_job(tmp_path))
    maker.close()
    first.join(5)
    assert ended == [Busy] and limits == [Limits(7.0)]
    with pytest.raises(Busy):
        maker.report(_job(tmp_path))


def test_a_report_that_is_in_the_making_answers_try_again() -> None:
    where = site(maker=Fake(Busy()))
    assert where.answer(report_of(page_of(where), "a"), "").status == 503


# --- over the wire ---


@contextmanager
def running(where: Site) -> Iterator[int]:
    with server._server(where, 0) as made:
        assert made.server_address[0] == "127.0.0.1"
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield int(made.server_address[1])
        finally:
            made.shutdown()
            thread.join(5)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(site()) as number:
        yield number


def ask(port: int, path: str = "/", method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    client.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        client.putheader(name.replace("_", "-"), value)
    client.endheaders()
    response = client.getresponse()
    return response, response.read()


def raw(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("path", ["/", "/?since=soon", "/nothing", "/?cause=x"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"])
def test_every_answer_is_safe_to_show(port: int, path: str, method: str) -> None:
    response, body = ask(port, path, method)
    for name, value in SAFE.items():
        assert response.headers[name] == value
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert "Python" not in response.headers["Server"]
    if method in ("GET", "HEAD"):
        assert response.status == {"/?since=soon": 400, "/nothing": 404}.get(path, 200)
        assert (body == b"") == (method == "HEAD")
        assert method == "HEAD" or len(body) == int(response.headers["Content-Length"])
    else:
        assert response.status == 405 and response.headers["Allow"] == "GET, HEAD" and b"GET and HEAD" in body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9000", "127.0.0.1:1", "[::1]:80"])
def test_names_of_this_machine_are_answered(port: int, host: str) -> None:
    assert ask(port, Host=host)[0].status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil.example:127", "127.0.0.2", "", "a\tb",
     "localhost:80:80", "localhost@evil.example", "0.0.0.0", "127.1"],
)  # fmt: skip
def test_another_name_that_resolves_to_this_machine_gets_nothing(port: int, host: str) -> None:
    response, body = ask(port, Host=host)
    assert response.status == 421 and b"cuda-oom" not in body


def test_a_request_without_a_host_or_with_two_gets_nothing(port: int) -> None:
    assert b" 421 " in raw(port, b"GET / HTTP/1.0\r\n\r\n").split(b"\r\n")[0]
    assert b" 421 " in raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n").split(b"\r\n")[0]


def test_other_sites_can_link_here_and_fetch_nothing(port: int) -> None:
    assert ask(port, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image")[0].status == 403
    assert ask(port, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors", Sec_Fetch_Dest="empty")[0].status == 403
    assert ask(port, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe")[0].status == 403
    assert ask(port, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0].status == 200
    assert ask(port, Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0].status == 200


@pytest.mark.parametrize(
    "request_",
    [b"", b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
     b"GET / HTTP/1.1\r\nContent-Length: 5\r\nHost: localhost\r\n\r\nab", b"\xff\xfe / HTTP/1.1\r\nHost: localhost\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_ends_without_a_word_of_the_program(
    port: int, request_: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = raw(port, request_)
    assert b"Traceback" not in answer and b"<" not in answer.split(b"\r\n\r\n")[0]
    assert ask(port)[0].status == 200
    assert capfd.readouterr().err == ""


def test_a_client_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server._Handler, "timeout", 0.1)
    with running(site()) as number, socket.create_connection(("127.0.0.1", number), timeout=5) as client:
        client.sendall(b"GET / HT")
        assert client.recv(10) == b""


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    with running(site()) as number:
        held = [socket.create_connection(("127.0.0.1", number), timeout=5) for _ in range(2)]
        time.sleep(0.1)
        try:
            assert raw(number, b"") == b""
            with socket.create_connection(("127.0.0.1", number), timeout=5) as third:
                assert third.recv(10) == b""
        finally:
            for client in held:
                client.close()
        for _ in range(100):
            try:
                assert ask(number)[0].status == 200
                break
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
        else:
            raise AssertionError("the slots were not given back")


def test_a_port_that_is_taken_is_a_reason(port: int) -> None:
    with pytest.raises(server.CannotServe, match=f"port {port}: .*--port 0"):
        server.serve(site(), port=port, ready=print, ending=print)


def test_ctrl_c_ends_it_cleanly_also_while_a_report_is_made(tmp_path: Path) -> None:
    (tmp_path / "runs/a").mkdir(parents=True)
    (tmp_path / "runs/a/x.log").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [
        sys.executable,
        "-m",
        "forensics",
        "triage",
        "runs",
        "--store",
        "s.sqlite",
        "--serve",
        "--port",
        "0",
        "-q",
    ]
    with subprocess.Popen(
        [*command, "-j", "1"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline()
        found = int(re.match(r"http://127\.0\.0\.1:(\d+)/ ", address)[1])  # type: ignore[index]
        text = ask(found)[1].decode()
        client = socket.create_connection(("127.0.0.1", found), timeout=20)
        client.sendall(f"GET {report_of(text, 'runs/a')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        for _ in range(200):
            if list(temporary.glob("forensics-worker-*")):
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        client.close()
    assert (process.returncode, out, err) == (0, "", "")
    assert not list(temporary.glob("forensics-*"))
