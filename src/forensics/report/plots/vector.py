"""Matplotlib's SVG made fit for a page: no styles, no scripts, two themes, a few known elements only.

A page whose Content-Security-Policy admits one style sheet by its hash admits no `style` attribute: declarations become
presentation attributes, and the colours of `canvas.COLOURS` become classes, which the page's style sheet sets.
"""

from __future__ import annotations

import re
from html import escape
from xml.etree import ElementTree

from forensics.patterns import lazy
from forensics.report.inert import one_line
from forensics.report.plots.canvas import COLOURS

_CLASS = {value: name for name, value in COLOURS.items()}
_ELEMENTS = frozenset({"svg", "g", "path", "text", "tspan", "use", "defs", "clipPath", "rect", "circle"})
_ATTRIBUTES = frozenset(
    {"d", "x", "y", "width", "height", "viewBox", "transform", "clip-path", "id", "href", "cx", "cy", "r"}
)
_DECLARATIONS = frozenset(
    {"stroke-width", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "opacity",
     "fill-opacity", "stroke-opacity", "text-anchor", "font-size", "font-weight", "fill-rule"}
)  # fmt: skip
_LOCAL = lazy(r"url\(#([\w-]+)\)\Z|#([\w-]+)\Z", re.ASCII)
_FONT_SIZE = lazy(r"([\d.]+)px")
_NUMBER = lazy(r"-?\d+\.\d{3,}")


def inline(document: str, key: str, title: str) -> str:
    """The SVG element of a page. key: what its ids begin with (ASCII letters, digits, hyphens); title: any text."""
    root = ElementTree.fromstring(document)
    used = set(re.findall(r'(?:url\(#|href="#)([\w-]+)', document))
    body = "".join(_element(child, key, used) for child in root)
    box = escape(root.get("viewBox", "0 0 100 100"))
    label = escape(one_line(title, 200))
    return f'<svg viewBox="{box}" role="img" aria-label="{label}"><title>{label}</title>{body}</svg>'


def _element(node: ElementTree.Element, key: str, used: set[str]) -> str:
    name = _local(node.tag)
    if name not in _ELEMENTS or _background(node):
        return ""
    attributes = _attributes(node, key, used)
    inner = escape(node.text, quote=False) if name in ("text", "tspan") and node.text else ""
    inner += "".join(_element(child, key, used) for child in node)
    if not inner and name in ("g", "defs", "text"):
        return ""
    if name == "g" and not attributes:
        return inner
    shown = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items())
    return f"<{name}{shown}>{inner}</{name}>" if inner else f"<{name}{shown}/>"


def _local(name: object) -> str:
    return str(name).rpartition("}")[2]


def _background(node: ElementTree.Element) -> bool:
    """The white sheet that a figure is drawn on."""
    style = node.get("style", "")
    return _local(node.tag) == "path" and "#ffffff" in style and "stroke" not in style.replace("stroke-linejoin", "")


def _attributes(node: ElementTree.Element, key: str, used: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    classes: list[str] = []
    for raw, value in node.attrib.items():
        name = _local(raw)
        if name == "style":
            _declare(value, found, classes)
        elif name in ("fill", "stroke"):
            _declare(f"{name}: {value}", found, classes)
        elif name in ("clip-path", "href"):
            if match := _LOCAL.match(value):
                target = f"{key}-{match[1] or match[2]}"
                found[name] = f"url(#{target})" if match[1] else f"#{target}"
        elif name == "id":
            if value in used:
                found["id"] = f"{key}-{value}"
        elif name in _ATTRIBUTES:
            short = _NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
            found[name] = " ".join(short.split())
    if classes:
        found["class"] = " ".join(classes)
    return found


def _declare(style: str, found: dict[str, str], classes: list[str]) -> None:
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name in ("fill", "stroke"):
            if value in _CLASS:
                classes.append(f"{name[0]}-{_CLASS[value]}")
            elif value == "none" or re.fullmatch(r"#[0-9a-f]{6}", value):
                found[name] = value
        elif name == "font":
            if match := _FONT_SIZE.search(value):
                found["font-size"] = match[1]
            if re.search(r"\b(?:bold|700)\b", value):
                found["font-weight"] = "bold"
        elif name in _DECLARATIONS and re.fullmatch(r"[\w. ,%-]+", value):
            found[name] = value.removesuffix("px")
