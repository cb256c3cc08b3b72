"""A place in a file, and what stands there, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forensics.model import Evidence
from forensics.report import words
from forensics.report.html.context import Context, Place
from forensics.report.html.markup import Markup, join, tag, verbatim

_LINE = 600  # characters of a line
_TEXT = 3000


def place(evidence: Evidence) -> Markup:
    """`file:line` as code; empty where there is no file."""
    where = words.place(evidence)
    return tag("code", where, class_="place") if where else Markup("")


def block(evidence: Sequence[Evidence], around: Mapping[Place, Context]) -> Markup:
    """Places in one file, and below them the lines that show them with their neighbours.

    Of a file that is no log the text of its one place stands alone.
    """
    known = [c for e in evidence if e.line is not None and (c := around.get((e.file, e.line))) is not None]
    first = evidence[0]
    if not known:
        text = tag("pre", verbatim(first.text.rstrip("\n"), _TEXT)) if first.text.strip() else None
        return tag("figure", tag("figcaption", place(first)), text, class_="evidence")
    lines: dict[int, tuple[str, bool]] = {}
    for context in known:
        for number, text_of, key in context.lines:
            lines[number] = (text_of, key or lines.get(number, ("", False))[1])
    shown = "".join(_essence(text_of) for text_of, _ in lines.values())
    # What was made of a record, or read from a line that only looks like that once it is cleaned.
    heads = [head for e in evidence if (head := _head(e)) and _essence(head) not in shown]
    said = [tag("p", head, class_="said") for head in heads]
    width = len(str(max(lines)))
    rows: list[Markup] = []
    before: int | None = None
    for number in sorted(lines):
        if before is not None and number > before + 1:
            rows.append(tag("span", "⋮", class_="l gap"))
        text_of, key = lines[number]
        label = tag("i", f"{number:>{width}}".replace(" ", "\u2007"))
        rows.append(tag("mark" if key else "span", label, verbatim(text_of, _LINE), class_="l"))
        before = number
    return tag(
        "figure",
        tag("figcaption", Markup(", ".join(place(e) for e in evidence))),
        *said,
        tag("pre", *rows, class_="lines"),
        class_="evidence",
    )


def _head(evidence: Evidence) -> str:
    return evidence.text.strip().split("\n", 1)[0].strip()


def _essence(text: str) -> str:
    return "".join(text.split())


def blocks(shown: Sequence[Evidence], around: Mapping[Place, Context], limit: int, unfolded: int = 2) -> Markup:
    """The first `limit` places, of which `unfolded` blocks are open to the eye, and how many more there are."""
    groups = _together(shown[:limit], around)
    rest = len(shown) - limit
    more = tag("p", f"… and {words.plural(rest, 'more place')}", class_="more") if rest > 0 else None
    folded = None
    if groups[unfolded:]:
        count = sum(map(len, groups[unfolded:]))
        summary = tag("summary", words.plural(count, "more place"))
        folded = tag("details", summary, *(block(group, around) for group in groups[unfolded:]))
    return join(*(block(group, around) for group in groups[:unfolded]), folded, more)


def _together(shown: Sequence[Evidence], around: Mapping[Place, Context]) -> list[list[Evidence]]:
    """Places whose neighbours overlap, as one."""
    groups: list[list[Evidence]] = []
    for evidence in shown:
        near = [g for g in groups if any(_overlap(e, evidence, around) for e in g)]
        if not near:
            groups.append([evidence])
            continue
        joined = [*(e for group in near for e in group), evidence]  # it can lie between two that were apart
        groups[:] = [joined if g is near[0] else g for g in groups if all(g is not other for other in near[1:])]
    return groups


def _overlap(one: Evidence, other: Evidence, around: Mapping[Place, Context]) -> bool:
    if one.file != other.file or one.line is None or other.line is None:
        return False
    a, b = around.get((one.file, one.line)), around.get((other.file, other.line))
    return a is not None and b is not None and a.lines[0][0] <= b.lines[-1][0] and b.lines[0][0] <= a.lines[-1][0]
