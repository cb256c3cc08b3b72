"""The longest literal of each log pattern: what a plain-text search for the catalogue would look for."""

from __future__ import annotations

import re

from forensics.signatures.schema import load_catalogue

_SPECIAL = re.compile(r"\\[dwsDWSbB]|[\[\](){}|*+?.^$]")


def longest_literal(pattern: str) -> str:
    """The longest run of plain text outside groups, classes and repetitions; may be empty."""
    flat = re.sub(r"\\([^\w])", lambda m: "\0" + m[1], pattern)  # keep escaped punctuation as text
    depth, runs, current, i = 0, [], "", 0
    while i < len(flat):
        c = flat[i]
        if c == "\0":
            if depth == 0:
                current += flat[i + 1]
            i += 2
            continue
        if c == "[":
            i = flat.find("]", i + 2)
            runs.append(current)
            current = ""
            if i < 0:
                break
        elif c == "(":
            depth += 1
            runs.append(current)
            current = ""
        elif c == ")":
            depth -= 1
        elif depth == 0 and (m := _SPECIAL.match(flat, i)):
            if c in "*?{":
                current = current[:-1]
            runs.append(current)
            current = ""
            i = flat.find("}", i) if c == "{" else m.end() - 1
        elif depth == 0:
            current += c
        i += 1
    if depth == 0 and "|" in _SPECIAL.sub(lambda m: m[0] if m[0] == "|" else "", re.sub(r"\([^()]*\)", "", flat)):
        return ""
    return max([*runs, current], key=len)


def catalogue_literals(shortest: int = 8) -> list[str]:
    """One literal a log pattern of the built-in catalogue, at least `shortest` characters long, without repetition."""
    found = set()
    for signature in load_catalogue().values():
        for rule in signature.evidence:
            if rule.pattern and len(literal := rule.anchor or longest_literal(rule.pattern)) >= shortest:
                found.add(literal)
    return sorted(found)
