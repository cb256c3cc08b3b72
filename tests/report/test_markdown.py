from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import ALL, FAILED, diagnosis, finding, read

from forensics.model import Evidence, RuledOut
from forensics.report import markdown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hi @octocat, see #12", "hi `@octocat,` see `#12`"),
        ("o/r#9 GH-7 https://x.example/a_b", "`o/r#9` `GH-7` `https://x.example/a_b`"),
        ("<img src=x onerror=y>", "&lt;img src=x onerror=y&gt;"),
        ("[a](javascript:b) ![c](d)", r"\[a\](javascript:b) !\[c\](d)"),
        ("# heading", r"\# heading"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("a_b *c* `d` ~~e~~ $f$ &amp;", r"a\_b \*c\* \`d\` \~\~e\~\~ &#36;f&#36; &amp;amp;"),
        ("one\n\n# two", "one # two"),
        ("`@x`", "`` `@x` ``"),
    ],
)
def test_text_is_shown_and_does_nothing(text: str, shown: str) -> None:
    assert markdown.escape(text) == shown


@given(st.text(alphabet="`~ab\n\r\x1b"))
def test_a_fence_cannot_be_closed_from_inside(text: str) -> None:
    lines = markdown.fenced(text).split("\n")
    fence = lines[-1]
    assert lines[0] == fence + "text"
    assert not any(re.match(rf" {{0,3}}`{{{len(fence)},}}\s*\Z", line) for line in lines[1:-1])


@given(st.text(alphabet="` a|", min_size=1))
def test_a_code_span_ends_where_it_should(text: str) -> None:
    span = markdown.code(text)
    if not span:
        assert not text.strip()
        return
    ticks = re.match("`+", span)
    assert ticks
    inside = span[len(ticks[0]) : -len(ticks[0])]
    assert span.endswith(ticks[0])
    assert len(ticks[0]) not in {len(run) for run in re.findall("`+", inside)}


def test_a_table_cell_keeps_its_pipes_to_itself() -> None:
    report = markdown.render(diagnosis(finding(node="a|b")))
    assert r"| node | `a\|b` |" in report


def test_it_fits_into_an_issue_and_says_what_it_left_out() -> None:
    big = "@" * 5000
    many = tuple(Evidence(f"{i}.log", i, 0, "x" * 100_000) for i in range(100))
    report = markdown.render(
        diagnosis(
            finding(why=big, title=big, node=big, notes=(big,) * 100, fix=(big,) * 100, evidence=many),
            *(finding(id=f"r{i}", why=big, evidence=many) for i in range(50)),
            summary=big,
            ruled_out=(RuledOut(big, big, many),) * 100,
            coverage=tuple(read(f"{i}" * 100) for i in range(5000)),
        )
    )
    assert len(report) <= markdown.LIMIT
    assert report.startswith("## FAILED: ")
    assert "5,000 left out here" in report
    assert "### What to do" in report
    assert report.count("<details>") == report.count("</details>")


def test_the_least_important_goes_first() -> None:
    report = markdown.render(
        diagnosis(
            *FAILED.findings, coverage=tuple(read(f"{i:04}.log") for i in range(3000)), ruled_out=FAILED.ruled_out
        )
    )
    assert len(report) <= markdown.LIMIT
    assert "`0000.log`" in report
    assert "`2999.log`" not in report
    for kept in ("`gpu-shared`", "`dmesg.txt:5`", "rank2/stderr.log:1229", "Resume from step 300."):
        assert kept in report


@pytest.mark.parametrize("name", ALL)
def test_every_details_is_closed(name: str) -> None:
    lines = markdown.render(ALL[name]).splitlines()
    assert lines.count("<details>") == lines.count("</details>") >= 1


def _rendered(document: str) -> ET.Element:
    """The document as GitHub's own renderer makes it (cmark-gfm with its extensions), parsed as XML."""
    from cmarkgfm import github_flavored_markdown_to_html
    from cmarkgfm.cmark import Options

    page = github_flavored_markdown_to_html(document, options=Options.CMARK_OPT_UNSAFE)
    return ET.fromstring(f"<body>{page}</body>")


def _outside_code(element: ET.Element) -> str:
    own = "" if element.tag in ("code", "pre") else (element.text or "") + "".join(map(_outside_code, element))
    return own + (element.tail or "")


@pytest.mark.parametrize("name", ALL)
def test_as_github_renders_it_nothing_of_a_log_acts(name: str) -> None:
    page = _rendered(markdown.render(ALL[name]))
    tags = {element.tag for element in page.iter()}
    assert tags <= {
        "body", "h2", "h3", "p", "strong", "em", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary",
        "ul", "ol", "li",
    }  # fmt: skip
    prose = _outside_code(page)
    assert not re.search(r"@\w|#\d|\bGH-\d|\w://|\bwww\.|:[a-z+_]+:", prose, re.I)


@pytest.mark.parametrize("name", ALL)
def test_every_table_keeps_its_columns(name: str) -> None:
    page = _rendered(markdown.render(ALL[name]))
    for table in page.iter("table"):
        assert len({len(row) for row in table.iter("tr")}) == 1
    assert len(list(page.iter("details"))) == markdown.render(ALL[name]).count("\n<details>\n")


@example("1@.G")
@given(st.text(alphabet="@#:/`|<>&*_~[]()!$\\\n aG1H-w.", min_size=1, max_size=30))
def test_no_text_breaks_the_page(text: str) -> None:
    made = diagnosis(
        finding(title=text, node=text, why=text, notes=(text,), evidence=(Evidence(text, 1, 0, text),), fix=(text,))
    )
    page = _rendered(markdown.render(made))
    assert {element.tag for element in page.iter()} <= {
        "body", "h2", "h3", "p", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul", "ol", "li",
    }  # fmt: skip
    assert not re.search(r"@\w|#\d|\w://|\bwww\.", _outside_code(page))
