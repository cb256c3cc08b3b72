"""The parts of a page, in the order in which they are read. Each is a function from the material to HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forensics.model import Diagnosis, Fact, Finding, Role, Status, Verdict
from forensics.report import words
from forensics.report.environment import gist, notable
from forensics.report.html.chain import Link, chain
from forensics.report.html.evidence import blocks, place
from forensics.report.html.frame import Section
from forensics.report.html.markup import Markup, join, tag
from forensics.report.html.material import Material

_EVIDENCE = 8  # places shown of the first root
_FURTHER = 20  # further roots
_LIST = 60  # items of a list
_ROWS = 5000  # rows of a table
_PRINTED = 200  # files whose table is printed on paper too; more would take many sheets
_TONE = {
    Verdict.FAILED: "bad",
    Verdict.HUNG: "bad",
    Verdict.DIVERGED: "bad",
    Verdict.SUSPECT: "warn",
    Verdict.INTERRUPTED: "warn",
    Verdict.UNKNOWN: "warn",
    Verdict.RECOVERED: "good",
    Verdict.HEALTHY: "good",
}


def headline(diagnosis: Diagnosis) -> Markup:
    """The verdict, one sentence, how sure it is, and what is known of the run."""
    verdict, sentence, sure = words.headline(diagnosis)
    top = next(iter(diagnosis.of_role(Role.ROOT)), None)
    summary = None
    if words.says_more(diagnosis.summary, sentence):
        summary = tag("p", words.continued(diagnosis.summary), class_="summary")
    badges = [tag("span", verdict, class_="verdict"), tag("span", sure, class_="sure") if sure else None]
    if top is not None:
        names = f" ({', '.join(top.codes)})" if top.codes else ""
        badges.append(tag("code", top.name + names, class_="slug"))
    run = "; ".join([diagnosis.run.path, *words.run_phrase(diagnosis.run)])
    environment = gist(diagnosis.environment)
    return tag(
        "header",
        tag("p", *badges, class_="badges"),
        tag("h1", sentence),
        summary,
        tag("p", run, class_="run"),
        tag("p", environment, class_="run") if environment else None,
        class_=f"head {_TONE[diagnosis.verdict]}",
    )


def sections(material: Material) -> list[Section]:
    """Every part of the page that has something to say, without the pictures."""
    diagnosis = material.diagnosis
    roots = diagnosis.of_role(Role.ROOT)
    found: list[Section] = []

    def add(key: str, title: str, body: Markup | None) -> None:
        if body:
            found.append((key, title, body))

    if roots:
        add("where", "Where", _where(roots[0], diagnosis))
        add("why", "Why", _why(roots[0]))
        add("fix", "What to do", _fix(roots[0]))
        add("evidence", "Evidence", blocks(roots[0].evidence, material.contexts, _EVIDENCE))
    add("chain", "Chain of causes", _chain(diagnosis))
    again, others = words.after_the_first(roots)
    add(
        "again",
        "The same again",
        tag("ul", *(tag("li", words.in_attempt(r, roots[0])) for r in again)) if again else None,
    )
    add("further", "Further causes, independent of the first", _further(others, material))
    # Without a root these are what the verdict rests on, and nobody had asked whether they do harm.
    add("context", "Seen, not the cause" if roots else "Seen", _context(diagnosis))
    add("hints", "Hints from the code", _hints(diagnosis))
    add("ruled-out", "Ruled out", _ruled_out(diagnosis))
    add("missing", "Missing evidence", _missing(diagnosis))
    add("environment", "Environment", _environment(diagnosis))
    add("coverage", "Coverage", _coverage(diagnosis))
    return found


def _where(finding: Finding, diagnosis: Diagnosis) -> Markup:
    rows = words.where(finding, diagnosis.run)
    return tag("dl", *(tag("div", tag("dt", label), tag("dd", value)) for label, value in rows), class_="where")


def _why(finding: Finding) -> Markup | None:
    notes = tag("ul", *(tag("li", note) for note in finding.notes)) if finding.notes else None
    if not finding.why.strip() and notes is None:
        return None
    return join(tag("p", finding.why), notes)


def _fix(finding: Finding) -> Markup | None:
    if not finding.fix:
        return None
    see = None
    if finding.see_also:
        see = tag("p", "See also: ", tag("code", f"forensics explain {' '.join(finding.see_also)}"))
    return join(tag("ol", *(tag("li", fix) for fix in finding.fix)), see)


def _chain(diagnosis: Diagnosis) -> Markup | None:
    roots, loose = chain(diagnosis)
    if not any(root.effects for root in roots) and not loose:
        return None
    parts = [tag("ul", *(_link(root, root=True) for root in roots), class_="chain")] if roots else []
    if loose:
        lead = "Follows from something that is not shown here:"
        parts += [tag("p", lead), tag("ul", *(_link(link, root=False) for link in loose), class_="chain")]
    return join(*parts)


def _link(link: Link, *, root: bool) -> Markup:
    first, group = link.first, link.group
    facts = [
        tag("code", group.name, class_="slug"),
        f" {words.ranks_phrase(group.ranks)}" if group.ranks else None,
        f" {words.step_phrase(first)}" if first.step is not None else None,
        f" · {words.plural(group.count, 'line')}",
        " · first at " if group.evidence and group.evidence[0].file else None,
        place(group.evidence[0]) if group.evidence else None,
    ]
    title = first.title if len(group.evidence) == 1 else first.title.split(": ", 1)[0]
    effects = tag("ul", *(_link(effect, root=False) for effect in link.effects)) if link.effects else None
    head = tag("div", tag("b", title.rstrip(" .")), tag("small", *facts), class_="link root" if root else "link")
    return tag("li", head, effects)


def _further(roots: Sequence[Finding], material: Material) -> Markup | None:
    if not roots:
        return None
    return join(*(_cause(root, material) for root in roots[:_FURTHER]), _more(len(roots) - _FURTHER, "cause"))


def _cause(root: Finding, material: Material) -> Markup:
    sure = words.percent(root.confidence)
    names = f" ({', '.join(root.codes)})" if root.codes else ""
    return tag(
        "details",
        tag("summary", tag("b", words.located(root)), f" · {sure}" if sure else None),
        tag("p", tag("code", root.name + names, class_="slug")),
        _why(root),
        blocks(root.evidence, material.contexts, 3),
        tag("p", tag("b", "What to do")) if root.fix else None,
        _fix(root),
    )


def _context(diagnosis: Diagnosis) -> Markup | None:
    findings = diagnosis.of_role(Role.CONTEXT)
    if not findings:
        return None
    first = {finding.name: finding for finding in reversed(findings)}
    items = []
    groups = words.grouped(findings)
    for group in groups[:_LIST]:
        on = f" on {words.ranks_phrase(group.ranks)}" if group.ranks else ""
        count = f" ({group.count:,} times)" if group.count > 1 else ""
        finding = first[group.name]
        said = " ".join(filter(None, [finding.why.strip(), *finding.notes[:2]]))
        head = tag("b", group.title.rstrip(" .") + on + count)
        items.append(tag("li", head, f": {said}" if said else None, *_places(group.evidence[:1])))
    return join(tag("ul", *items), _more(len(groups) - _LIST, "kind"))


def _places(evidence: Iterable[object]) -> list[Markup]:
    from forensics.model import Evidence

    return [join(" ", place(e)) for e in evidence if isinstance(e, Evidence) and e.file]


def _hints(diagnosis: Diagnosis) -> Markup | None:
    hints = diagnosis.hints_apart()
    if not hints:
        return None
    items = [
        tag("li", tag("b", hint.title.rstrip(" .")), f": {hint.why}", *_places(hint.evidence[:1]))
        for hint in hints[:_LIST]
    ]
    return join(tag("ul", *items), _more(len(hints) - _LIST, "hint"))


def _ruled_out(diagnosis: Diagnosis) -> Markup | None:
    if not diagnosis.ruled_out:
        return None
    items = [
        tag("li", tag("code", item.name, class_="slug"), f" {item.reason}", *_places(item.evidence[:1]))
        for item in diagnosis.ruled_out[:_LIST]
    ]
    return join(tag("ul", *items), _more(len(diagnosis.ruled_out) - _LIST, "candidate"))


def _missing(diagnosis: Diagnosis) -> Markup | None:
    if not diagnosis.missing_evidence:
        return None
    items = [
        tag("li", item.what, tag("div", "Next time: ", item.how, class_="next") if item.how.strip() else None)
        for item in diagnosis.missing_evidence[:_LIST]
    ]
    return join(tag("ul", *items), _more(len(diagnosis.missing_evidence) - _LIST, "item"))


def _environment(diagnosis: Diagnosis) -> Markup | None:
    facts = diagnosis.environment
    if not facts:
        return None
    shown = notable(facts)
    rest = [fact for fact in facts if fact not in set(shown)]
    parts = [_facts(shown)] if shown else []
    if rest:
        title = f"{words.plural(len(rest), 'further fact')}" if shown else words.plural(len(rest), "fact")
        parts.append(
            tag(
                "details",
                tag("summary", title),
                _facts(rest[:_ROWS]),
                _more(len(rest) - _ROWS, "fact"),
                class_="long" if len(rest) > _PRINTED else None,
            )
        )
    return join(*parts)


def _facts(facts: Sequence[Fact]) -> Markup:
    return _table(
        ("name", "value", "where"),
        [
            (tag("code", f.name), tag("code", f.value[:400]), tag("code", words.stated_at(f), class_="place"))
            for f in facts
        ],
    )


def _coverage(diagnosis: Diagnosis) -> Markup:
    order = (Status.UNREADABLE, Status.PARTIAL, Status.SKIPPED, Status.READ)
    rows = sorted(diagnosis.coverage, key=lambda source: order.index(source.status))
    lead = tag("p", words.coverage_phrase(diagnosis.coverage) + ".")
    if not rows:
        return lead
    cells: list[tuple[Markup | str, ...]] = [
        (
            tag("code", c.path),
            tag("span", c.kind, class_="n"),
            "" if c.rank is None else str(c.rank),
            tag("span", c.node, class_="n") if c.node else "",
            tag("span", words.size(max(c.bytes, 0)), class_="n", data_v=c.bytes),
            tag("span", c.status.value, class_=f"status {c.status.value}"),
            c.reason or "",
        )
        for c in rows[:_ROWS]
    ]
    heads = ("file", "kind", "rank", "node", "size", "status", "reason")
    said = [n for n in range(len(heads)) if any(row[n] for row in cells)]  # a column that says nothing is left out
    table = _table([heads[n] for n in said], [[row[n] for n in said] for row in cells])
    trouble = any(c.status is not Status.READ for c in rows)
    title = tag("summary", words.plural(len(rows), "file"))
    return join(
        lead,
        tag(
            "details",
            title,
            table,
            _more(len(rows) - _ROWS, "file"),
            open=trouble and len(rows) <= 40,
            class_="long" if len(rows) > _PRINTED else None,
        ),
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[Markup | str]]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    return tag("div", tag("table", head, body, class_="sortable"), class_="wide")


def _more(count: int, what: str) -> Markup | None:
    return tag("p", f"… and {words.plural(count, f'more {what}')}", class_="more") if count > 0 else None
