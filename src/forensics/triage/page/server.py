"""A triage served to the browsers of this machine: the page with its filters, and reports of jobs on demand.

Only what was triaged can be asked for: an address names a filter or a job of the table, never a path. Nothing is
written and nothing is accepted but GET and HEAD.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from forensics.report.inert import inert
from forensics.triage.batch import count
from forensics.triage.examine import Outcome
from forensics.triage.filters import Unknown, check_groups, is_group
from forensics.triage.insight.found import related
from forensics.triage.model import Batch, CauseCount, Job, JobResult
from forensics.triage.page.document import document, policy
from forensics.triage.page.material import Asked, Page
from forensics.triage.page.query import BadQuery, parse
from forensics.triage.page.reports import Busy, addresses

HOST = "127.0.0.1"
PORT = 8431
CONNECTIONS = 16  # at once
SILENCE = 20.0  # seconds that a client may say nothing
KEPT = 8  # pages that are kept
_REPORT = re.compile(r"/report/([0-9a-f]{24})\Z")
# A page of another site that has this machine's name resolve to 127.0.0.1 sends its own name. Any port, for it may have
# been forwarded.
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?\Z", re.I)


class CannotServe(Exception):
    """The page cannot be served; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    policy: str = "default-src 'none'"


def _said(status: HTTPStatus, text: str) -> Answer:
    return Answer(status, f"{inert(text)}\n".encode("utf-8", "replace"))


class Site:
    """What can be asked for: a function of path and query. Made from a batch whose `jobs` are known.

    shown: the same rows in the same order as they are to be seen, that is redacted or as they are. report: what makes
    the page of a job; it may raise Busy. check: raises Unknown for causes that there are not, of those that no row has.
    """

    def __init__(
        self,
        batch: Batch,
        shown: Batch,
        report: Callable[[Job], Outcome],
        *,
        redacted: bool,
        check: Callable[[Sequence[str]], None] = lambda causes: None,
    ) -> None:
        names = addresses(r.path for r in batch.results)
        self._jobs: dict[str, Job] = {}
        links: dict[str, str] = {}
        for real, seen in zip(batch.results, shown.results, strict=True):
            job = batch.jobs.get(real.path)
            if job is not None and real.error is None:
                self._jobs[names[real.path]] = job
                links[seen.path] = f"/report/{names[real.path]}"
        self._shown = replace(shown, reports=links)
        self._make = report
        self._redacted = redacted
        self._check = check
        self._named = frozenset(name for r in shown.results for name in (r.cause, *r.roots, *r.codes))
        self._causes = {c.cause: c for c in shown.causes}
        self._pages: OrderedDict[tuple[tuple[str, str], ...], bytes] = OrderedDict()
        self._one = threading.Lock()

    def answer(self, path: str, query: str) -> Answer:
        """What an address gets. path and query are as they came: nothing in a path is decoded."""
        if path == "/":
            return self._page(query)
        if (found := _REPORT.match(path)) and not query:
            return self._report(found[1])
        return _said(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _page(self, query: str) -> Answer:
        try:
            asked, values = parse(query, self._shown.made)
            unseen = [c for c in asked.cause if not any(fnmatch.fnmatchcase(name, c) for name in self._named)]
            self._check(unseen)
            check_groups(filter(is_group, unseen), self._shown.insights.unknown)
        except (BadQuery, Unknown) as error:
            return _said(HTTPStatus.BAD_REQUEST, str(error))
        wanted = asked.among(self._shown.insights.unknown)
        with self._one:  # a page of many jobs takes a second of one CPU
            body = self._pages.get(values)
            if body is None:
                body = document(self._filtered(wanted, values)).encode("utf-8", "replace")
                self._pages[values] = body
                while len(self._pages) > KEPT:
                    self._pages.popitem(last=False)
        return Answer(HTTPStatus.OK, body, "text/html; charset=utf-8", policy(served=True))

    def _filtered(self, wanted: Callable[[JobResult], bool], values: tuple[tuple[str, str], ...]) -> Page:
        results = tuple(filter(wanted, self._shown.results)) if values else self._shown.results
        causes = tuple(map(self._dated, count(results))) if values else self._shown.causes
        asked = Asked(values=values, total=len(self._shown.results))
        insights = self._shown.insights
        if values:
            insights = related(insights, frozenset(r.path for r in results))
        batch = replace(self._shown, results=results, causes=causes, insights=insights)
        return Page(batch=batch, redacted=self._redacted, asked=asked)

    def _dated(self, counted: CauseCount) -> CauseCount:
        """With the first and last failure of all that the store knows, as without a filter."""
        known = self._causes.get(counted.cause)
        return replace(counted, first=known.first, last=known.last) if known is not None else counted

    def _report(self, name: str) -> Answer:
        job = self._jobs.get(name)
        if job is None:
            return _said(HTTPStatus.NOT_FOUND, "There is no such job.")
        try:
            outcome = self._make(job)
        except Busy:
            return _said(HTTPStatus.SERVICE_UNAVAILABLE, "Another report is being made. Try again in a moment.")
        if outcome.error is not None:
            # The error may name what redaction hides.
            reason = outcome.error.split(":", 1)[0] if self._redacted else outcome.error
            return _said(HTTPStatus.BAD_GATEWAY, f"The report could not be made: {reason}")
        return Answer(HTTPStatus.OK, outcome.report, "text/html; charset=utf-8", _policy_of(outcome.report))


_STATED = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"<>]{1,4000})">')


def _policy_of(page: bytes) -> str:
    """The policy that a report states in its head, for the header."""
    from html import unescape

    found = _STATED.search(page, 0, 4096)
    return unescape(found[1].decode("ascii", "replace")) if found else "default-src 'none'"


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "forensics"
    sys_version = ""
    timeout = SILENCE

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer(), body=False)

    def _refuse(self) -> None:
        self._send(_said(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered."), allow=True)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _answer(self) -> Answer:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not _LOCAL.match(hosts[0].strip()):
            return _said(HTTPStatus.MISDIRECTED_REQUEST, "This is served to 127.0.0.1 and localhost only.")
        if self.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and not self._navigates():
            return _said(HTTPStatus.FORBIDDEN, "Other sites get nothing from here.")
        path, _, query = self.path.partition("?")
        return self.server.site.answer(path, query)

    def _navigates(self) -> bool:
        """Whether a person followed a link to here, rather than another site's page fetching something."""
        return self.headers.get("Sec-Fetch-Mode") == "navigate" and self.headers.get("Sec-Fetch-Dest") == "document"

    def _send(self, answer: Answer, *, body: bool = True, allow: bool = False) -> None:
        self.send_response(answer.status)
        if allow:
            self.send_header("Allow", "GET, HEAD")
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("Retry-After", "5")
        for name, value in (
            ("Content-Type", answer.kind),
            ("Content-Length", str(len(answer.body))),
            ("Content-Security-Policy", f"{answer.policy}; frame-ancestors 'none'"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        if body:
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library has to say of a request that it cannot read; 501 is its answer to an unknown method."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse()
        else:
            self._send(_said(HTTPStatus(code), "Bad request."))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, site: Site) -> None:
        self.site = site
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((HOST, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's fault."""


def serve(site: Site, *, port: int, ready: Callable[[str], None], ending: Callable[[], None]) -> None:
    """Serve until interrupted (Ctrl-C, or SIGTERM in the main thread).

    ready: called with the address. ending: called when it is over, to end what is being made.

    Raises CannotServe where the port cannot be had.
    """
    with _server(site, port) as server:
        ready(f"http://{HOST}:{server.server_address[1]}/")
        try:
            with contextlib.suppress(KeyboardInterrupt), _term_interrupts():
                server.serve_forever(poll_interval=0.2)
        finally:
            ending()


@contextlib.contextmanager
def _server(site: Site, port: int) -> Iterator[_Server]:
    try:
        server = _Server(port, site)
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or error
        raise CannotServe(f"port {port}: {said}; --port 0 takes one that is free") from None
    with server:
        yield server


@contextlib.contextmanager
def _term_interrupts() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does, so that a worker and its folder do not outlive the server."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
