"""The page: whole, inert, redacted, and true to the diagnosis."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import ALL, FAILED, HOSTILE, diagnosis, finding

from forensics.engine.pipeline import Options, analyse
from forensics.model import Coverage, Diagnosis, Evidence, Role, Status
from forensics.report import html
from forensics.report.html.chain import chain
from forensics.report.html.context import Context
from forensics.report.html.markup import Markup, join, tag
from forensics.report.html.material import Material
from forensics.report.own import is_report
from forensics.report.plots.model import (
    CollectiveProgress,
    Curve,
    Lane,
    Onset,
    Panel,
    Pictures,
    Reached,
    Sign,
    Swimlane,
)

EVIL = "\x1b]0;x\x07\u202e</text></svg></pre><script>alert(1)</script><img src=x onerror=alert(1)>\" onload='x' $\\frac{1}$ &amp; "


def pictures(text: str = "rank 2") -> Pictures:
    return Pictures(
        Swimlane("time", 0.0, 60.0, (
            Lane(text, (2,), ((0.0, 20.0),), (Sign(20.0, text, True),), culprit=True, reached=text),
            Lane("ranks 0-7", tuple(range(8)), ((0.0, 60.0),), (Sign(30.0, text, False, 8),), ((0.0, 1.0), (60.0, 0.0))),
        ), (text,)),
        (Panel(text, "step", "linear", (Curve(text, (1.0, 2.0, 3.0), (1.0, float("nan"), 2.0), "culprit"),),
               onsets=(Onset(2.0, text),), broken=(2.0,), notes=(text,)),),
        (CollectiveProgress(text, "watchdog", (Reached((0, 1), 7, text, "waits in it", text), Reached((2,), 6, "all_reduce", "done", text, True)), (3,)),),
        (text,),
    )  # fmt: skip


class Reader(HTMLParser):
    """Every element, attribute and piece of text as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))


def checked(page: str) -> Reader:
    """A page in which nothing acts: known elements, no handlers, no address but anchors, only our own script."""
    reader = Reader(page)
    assert not reader.open
    assert reader.elements.count("script") <= 1
    assert not {"img", "iframe", "object", "link", "a:href", "form", "foreignobject", "image"} & set(reader.elements)
    for element, name, value in reader.attributes:
        assert not name.startswith("on")
        assert name not in ("style", "src", "srcdoc", "xlink:href")
        if name == "href":
            assert value and value.startswith("#"), (element, value)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)
    return reader


@pytest.mark.parametrize("name", ALL)
def test_a_page_is_whole_and_its_policy_admits_its_own_style_and_script_alone(name: str) -> None:
    page = html.render(html.redact(html.gather(ALL[name], None)))
    reader = checked(page)
    policy = next(v for t, n, v in reader.attributes if t == "meta" and n == "content" and v and "default-src" in v)
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        text = "".join(data for inside, data in reader.texts if inside == element)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "url(" not in "".join(data for inside, data in reader.texts if inside == "style")
    assert is_report(page.encode()[: 16 << 10])


def test_it_says_what_the_diagnosis_says() -> None:
    page = html.render(html.gather(FAILED, None))
    shown = " ".join(data for _, data in Reader(page).texts)
    for text in (
        "FAILED", "97 % sure", "CUDA out of memory on rank 2 (node-7) at step 412", "rank2/stderr.log:1234",
        "Lower the micro batch size", "collective-timeout", "no process was killed", "torch.cuda.memory",
        "ends inside a line", "2.2.2+cu121", "A checkpoint is truncated", "Loss scale fell at the start",
    ):  # fmt: skip
        assert text in shown


def test_what_a_log_holds_is_text_everywhere() -> None:
    material = Material(HOSTILE, pictures(EVIL), {})
    page = html.render(material)
    checked(page)
    assert "<script>alert" not in page and "onerror=alert(1)&gt;" in page


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_inert_in_a_part(text: str) -> None:
    part = tag("p", text, tag("code", text, title=text), class_=text)
    reader = checked(part)
    assert reader.elements == ["p", "code"]
    assert isinstance(join(part, text), Markup)


def test_the_neighbours_of_a_line_stand_around_it_and_overlapping_ones_as_one() -> None:
    lines = {n: tuple((m, f"line {m} <b>", m == n) for m in range(n - 3, n + 4)) for n in (10, 12)}
    around = {("a.log", n): Context("a.log", n, shown) for n, shown in lines.items()}
    evidence = tuple(Evidence("a.log", n, 0, f"line {n} <b>") for n in (10, 12))
    page = html.render(Material(diagnosis(finding(evidence=evidence)), Pictures(), around))
    assert page.count('<mark class="l">') == 2
    assert page.count("line 11 &lt;b&gt;") == 1
    assert 'class="said"' not in page


def test_a_place_between_two_that_are_apart_makes_all_three_one() -> None:
    around = {
        ("a.log", n): Context("a.log", n, tuple((m, f"line {m} .", m == n) for m in range(n - 3, n + 4)))
        for n in (10, 15, 20, 40)
    }
    evidence = tuple(Evidence("a.log", n, 0, f"line {n} .") for n in (10, 20, 40, 15))
    page = html.render(Material(diagnosis(finding(evidence=evidence)), Pictures(), around))
    assert page.count('<pre class="lines">') == 2 and all(page.count(f"line {n} .") == 1 for n in range(7, 24))


def test_redaction_reaches_pictures_and_neighbours_with_the_same_stand_ins() -> None:
    secret, host = "hf_" + "aB3" * 10, "dgx-17.corp.lan"
    given = diagnosis(
        finding(node=host, evidence=(Evidence(f"{host}/a.log", 2, 0, "x"),)),
        coverage=(Coverage(f"{host}/a.log", "log", 5, Status.READ),),
    )
    around = {(f"{host}/a.log", 2): Context(f"{host}/a.log", 2, ((1, f"token={secret}", False), (2, "x", True)))}
    page = html.render(html.redact(Material(given, pictures(f"{host} {secret}"), around)))
    assert secret not in page and "dgx-17" not in page
    assert "host-1/a.log:2" in page and "secret-1" in page
    assert '<mark class="l">' in page  # the neighbours are still found under the file's new name
    plain = html.render(Material(given, pictures(host), around))
    assert secret in plain and "Nothing is redacted" in plain


def test_a_key_of_which_only_the_middle_is_shown_is_hidden() -> None:
    body = "MIIEpAIBAAKCAQEA" + "q7Zk" * 12
    lines = ((1, body, False), (2, "-----END RSA PRIVATE KEY-----", False), (3, "Error: x", True), (4, "after", False))
    evidence = (Evidence("a.log", 3, 0, "Error: x"),)
    material = Material(diagnosis(finding(evidence=evidence)), Pictures(), {("a.log", 3): Context("a.log", 3, lines)})
    page = html.render(html.redact(material))
    assert body not in page and "Error: x" in page and "after" in page


def test_each_finding_stands_once_in_the_chain_also_in_a_circle() -> None:
    circle = (
        finding(id="f1", explains=("f2",)),
        finding(id="f2", name="b", role=Role.CASCADE, explained_by="f1"),
        finding(id="f3", name="c", role=Role.CASCADE, explained_by="f2"),
        finding(id="f4", name="d", role=Role.CASCADE, explained_by="f5"),
        finding(id="f5", name="e", role=Role.CASCADE, explained_by="f4"),
        finding(id="f6", name="f", role=Role.CASCADE, explained_by="gone"),
    )
    roots, loose = chain(diagnosis(*circle))
    assert [(r.group.name, [e.group.name for e in r.effects]) for r in roots] == [("gpu-oom", ["b"])]
    assert roots[0].effects[0].effects[0].group.name == "c"
    assert sorted(link.group.name for link in loose) == ["d", "f"]
    assert [e.group.name for link in loose for e in link.effects] == ["e"]


def test_a_healthy_run_has_no_cause_and_no_chain() -> None:
    page = html.render(html.gather(ALL["healthy"], None))
    assert 'id="why"' not in page and 'id="chain"' not in page and "HEALTHY" in page


def test_a_notebook_shows_it_redacted_in_a_frame_without_scripts() -> None:
    shown: str = dataclasses.replace(FAILED, summary="mail a.b@firm.example")._repr_html_()
    reader = Reader(shown)
    assert reader.elements == ["iframe"]
    inner = next(v for _, n, v in reader.attributes if n == "srcdoc")
    assert ("iframe", "sandbox", None) in reader.attributes or ("iframe", "sandbox", "") in reader.attributes
    assert inner and "firm.example" not in inner
    assert "script" not in checked(inner).elements


def test_a_notebook_learns_names_from_the_files_of_the_run(tmp_path: Path) -> None:
    for rank in range(2):
        folder = tmp_path / f"zeta{rank}"
        folder.mkdir()
        (folder / "run.log").write_text(
            f"zeta{rank}:42:42 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.{rank}<0>\n"
            'Traceback (most recent call last):\n  File "/app/t.py", line 1, in <module>\n    f()\nKeyError: "x"\n'
        )
    found = analyse([str(tmp_path)], Options(threads=1))
    assert "zeta0" in str(found)
    assert "zeta" not in found._repr_html_()


def test_many_files_make_no_endless_table() -> None:
    many: Diagnosis = diagnosis(coverage=tuple(Coverage(f"{n}.log", "log", 1, Status.READ) for n in range(6000)))
    page = html.render(html.gather(many, None))
    assert page.count("<tr>") < 5100 and "1,000 more files" in page


def test_columns_that_say_nothing_are_left_out() -> None:
    page = html.render(Material(diagnosis(coverage=(Coverage("a.log", "log", 1, Status.READ, None, 0),))))
    heads = re.findall(r"<th [^>]*>(\w+)</th>", page)
    assert heads == ["file", "kind", "rank", "size", "status"]
    calls = CollectiveProgress("pg", "watchdog", (Reached((0,), 7, "all_reduce", "waits in it"),), (1,))
    page = html.render(Material(diagnosis(), Pictures(sequences=(calls,))))
    assert "called at" not in page and 'colspan="3"' in page


def test_a_table_of_a_thousand_files_is_not_printed() -> None:
    for count, marked in ((20, False), (1000, True)):
        made = diagnosis(coverage=tuple(Coverage(f"{n}.log", "log", 1, Status.READ) for n in range(count)))
        assert ('class="long"' in html.render(Material(made))) is marked


def test_dark_colours_are_for_screens_and_never_printed() -> None:
    css = re.sub(r"/\*.*?\*/", "", (Path(html.__file__).parent / "report.css").read_text(), flags=re.S)
    dark = re.findall(r"@media ([^{]*prefers-color-scheme: dark[^{]*)\{", css)
    assert [query.strip() for query in dark] == ["screen and (prefers-color-scheme: dark)"]
    printed = css[css.index("@media print") :]
    assert re.search(r":root \{[^}]*color-scheme: light;", printed)  # or a browser paints its own parts dark


def test_a_culprit_is_marked_in_the_table_of_collectives() -> None:
    reached = (Reached((0, 1), 7, "all_reduce", "waits in it"), Reached((2,), 6, "all_reduce", "done", behind=True))
    group = CollectiveProgress("tp_1", "Flight Recorder", reached, silent=(3, 4), culprits=(2, 3))
    shown = html.render(Material(diagnosis(finding()), pictures=Pictures(sequences=(group,))))
    rows = re.findall(r"<tr(?: class=\"(\w+)\")?><td class=\"ranks\">([^<]*)</td>", shown)
    assert rows == [("", "ranks 0, 1"), ("behind", "\u25b6 rank 2"), ("blamed", "\u25b6 rank 3"), ("", "rank 4")]
