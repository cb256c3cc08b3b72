"""Secrets whose name stands apart from them: in lists of arguments, tables, elements, and on the line above."""

from __future__ import annotations

import re
from collections.abc import Callable

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.named import called_secret
from forensics.report.redaction.stand_ins import is_stand_in

_TELLING = r"(?=[\w. /-]{0,80}(?:pass|pwd|secret|token|key|cred|auth|salt|dsn|cookie))"
_TELLING_WORD = _TELLING.replace(r"[\w. /-]", r"[\w.-]")
_QUOTED = r"b?(?P<quote>\\?[\"'])(?P<quoted>(?:(?!(?P=quote))[^\n]){1,1000})(?=(?P=quote))"
# `'--api-key', 'x'`: a list of arguments as Python and JSON write it.
_ARGUMENTS = lazy(
    rf"(?i)(?P<mark>\\?[\"'])--?{_TELLING}(?P<name>[\w.-]{{2,80}})(?P=mark)\s{{0,3}},\s{{0,40}}{_QUOTED}", re.ASCII
)
# `('password', 'x')`: an item of a dictionary.
_TUPLE = lazy(
    rf"(?i)\(b?(?P<mark>\\?[\"']){_TELLING}(?P<name>[\w.-]{{2,80}})(?P=mark),\s?{_QUOTED}(?=\\?[\"']\))", re.ASCII
)
_BARS = "|\u2502\u2503\u2506\u250a\u2551"
_BAR = f"[{_BARS}]"
# `| hf_token | x |`: two cells of a table, in Markdown and as rich, tabulate and PrettyTable draw it.
_CELLS = lazy(
    rf"(?i)(?:(?:(?<=\s)|(?<=\A)){_BAR}[ \t]{{0,80}}|{_BAR}[ \t]{{1,80}})[`*'\"]{{0,2}}{_TELLING}"
    rf"(?P<name>[A-Za-z][\w./-]{{1,80}})[`*'\"]{{0,2}}[ \t]{{0,80}}{_BAR}"
    rf"[ \t]{{0,80}}[`'\"]?(?P<plain>[^\s{_BARS}`'\"][^\n{_BARS}`'\"]{{0,1000}}?)"
    rf"(?=[`'\"]?[ \t]{{0,400}}(?:{_BAR}|\n|\Z))"
)
_ELEMENT = lazy(
    rf"(?i)<(?P<element>{_TELLING}(?P<name>[A-Za-z][\w.-]{{1,80}}))>(?P<plain>[^<>\n]{{1,1000}})(?=</(?P=element)>)",
    re.ASCII,
)
# `api_key:` with the value alone on the next line, further in.
_NEXT_LINE = lazy(
    rf"(?i)(?<![\w.-]){_TELLING}(?P<name>[A-Za-z][\w.-]{{2,80}})\\?[\"']?\s?[:=][ \t]?"
    rf"(?P<block>[>|][+-]?)?[ \t\r]*\n[ \t]+"
    r"(?:-[ \t]+)?[\"']?(?P<plain>[^\s\"':,{}\[\]]{6,1000})[\"']?(?=[ \t\r]*(?:\n|\Z))",
    re.ASCII,
)  # fmt: skip
# `--api-key` with its value alone on the next line, as `kubectl describe` and YAML list arguments.
_OPTION_LINE = lazy(
    rf"(?i)(?:(?<=\n)|(?<=\A)|(?<=[\s\]|>\"'-]))--?{_TELLING}(?P<name>[A-Za-z][\w.-]{{2,80}})[\"']?,?[ \t\r]*\n"
    rf"(?:[^\n]{{0,80}}?[\s\]|>:])??[ \t]*"
    r"(?:-[ \t]+)?[\"']?(?P<plain>(?!-)[^\s\"']{1,1000})(?=[\"']?,?[ \t\r]*(?:\n|\Z))",
    re.ASCII,
)
# A header that is folded behind its scheme (RFC 7230, 3.2.4).
_FOLDED = lazy(
    r"(?i)(authorization\\?[\"']?\s?[:=]\s?(?:bearer|basic|token|negotiate|ntlm|apikey)[ \t\r]*\n"
    r"(?:[^\n]{0,80}?[\s\]|>:])??[ \t]*)"
    r"([\w.~+/=-]{8,})(?=[ \t\r]*(?:\n|\Z))",
    re.ASCII,
)
# `kind: Secret` of Kubernetes, or its types: all that stands below `data:`.
_SECRET_KIND = lazy(
    r"(?m)\bkind:\s?Secret[ \t\r]*$|\btype:\s?(?:Opaque|kubernetes\.io/\S+"
    r"|bootstrap\.kubernetes\.io/\S+)",
    re.ASCII,
)
_DATA_BLOCK = lazy(
    r"(?m)(^(?P<in>[^\n]{0,80}?)(?:data|stringData):[ \t\r]*\n)((?:(?P=in)[ \t]+[^\n]*(?:\n"
    r"|\Z)){1,60})",
    re.ASCII,
)
_ENTRY = lazy(r"(?m)^([^\n]*?[\w.-]{1,200}:[ \t]+[\"']?)([^\s\"'|>][^\s\"']*)", re.ASCII)
# `wandb: {key: x}`, and `wandb:` with `key: x` below it.
_BELOW = lazy(
    r"(?i)(?<![\w.-])(?P<name>wandb|api|comet(?:_ml)?|neptune|openai|anthropic|huggingface|hf)\\?[\"']?\s?[:=]"
    r"(?:\s?\{[^{}\n]{0,200}?|[ \t\r]*\n(?:[ \t]+[\w-]+:[^\n]{0,200}\n){0,6}[ \t]+)"
    r"(?<!\w)\\?[\"']?key\\?[\"']?\s?[=:]\s?"
    rf"(?:{_QUOTED}|(?P<plain>[^\s\"',{{}}]{{6,1000}}))",
    re.ASCII,
)
_INDENT = r"(?:[ \t\r]*\n[ \t]+|[ \t]{1,20})"  # also where lines were joined
# W&B's config.yaml and config.json: `hf_token:`, below it `desc: null` and `value: x`; `"hf_token": {"value": "x"}`.
_VALUE = lazy(
    rf"(?i)(?<![\w.-]){_TELLING_WORD}(?P<name>[A-Za-z][\w.-]{{2,80}})\\?[\"']?\s?:"
    r"(?:\s?\{\s?(?:\\?[\"']desc\\?[\"']:[^{},\n]{1,80},\s?)?"
    rf"|{_INDENT}(?:desc:[^\n]{{0,80}}?{_INDENT})?)"
    rf"\\?[\"']?value\\?[\"']?\s?:[ \t]{{0,3}}(?:{_QUOTED}|(?P<plain>[^\s\"'{{}},\[\]][^\s,{{}}\"']{{0,1000}}))",
    re.ASCII,
)
# pydantic shows what it was given: `hf_token` and, on the next line, `... [type=string_type, input_value='x', ...]`.
_INPUT = lazy(
    rf"(?i)(?<![\w.-]){_TELLING_WORD}(?P<name>[A-Za-z][\w.-]{{2,80}})\s{{1,8}}(?-i:[A-Z])[^\n\[]{{3,300}}"
    rf"\[type=\w{{1,60}}, input_value={_QUOTED}",
    re.ASCII,
)
# A debugger or a console shows the value of what it was asked for on the next line.
_ASKED = lazy(
    rf"(?im)^[^\n]{{0,80}}?(?:\(Pdb\+?\+?\)|i?pdb>|>>>|In \[\d+\]:)[ \t]+(?:pp?[ \t]+|print\(|!)?"
    rf"[^\n'\"=]{{0,80}}?(?:\[[\"']|\([\"'])?"
    rf"{_TELLING_WORD}(?P<name>[A-Za-z][\w.-]{{2,80}})(?:[\"'][\])])?\)?[ \t]*\n(?:Out\[\d+\]:[ \t]*)?{_QUOTED}",
    re.ASCII,
)
# In a cell beside a name stands as often what kind of thing it is, or whether it is needed.
_DESCRIPTION = lazy(
    r"(?i)(?:str(?:ing)?|text|int(?:eger)?|bool(?:ean)?|float|optional|required|none|null|n/a|type|value|default|yes|no"
    r"|true|false|description|count|-+|:?-+:?)\Z",
    re.ASCII,
)


def _replaced(pattern: re.Pattern[str], secret: Callable[[str, str], bool], text: str, memory: Memory) -> str:
    def replace(match: re.Match[str]) -> str:
        group = "quoted" if "quoted" in match.re.groupindex and match["quoted"] is not None else "plain"
        value = match[group]
        if is_stand_in(value) or not secret(match["name"], value):
            return match[0]
        at, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:at] + memory.secret(value) + match[0][end:]

    return pattern.sub(replace, text)


def _cell(name: str, value: str) -> bool:
    # `| token | loss |` is a head or prose: a cell needs a name that is no plain word, or a value that is none.
    plain = name.isalpha() and name.lower() in ("token", "tokens", "key", "keys", "secret", "auth", "author", "pass")
    if _DESCRIPTION.match(value) or (plain and (len(value) < 8 or not any(char.isdigit() for char in value))):
        return False
    return len(value.split()) < 4 and called_secret(name, value)


def _alone(name: str, value: str) -> bool:
    return any(char.isdigit() for char in value) and called_secret(name, value)


def apart(text: str, memory: Memory) -> str:
    """`text` without secrets whose name stands before them, and not right before them; also on the line above."""
    lowered = text.lower()
    if "value" in lowered:
        text = _replaced(_VALUE, called_secret, text, memory)
    if "'--" in text or '"--' in text or "'-" in text:
        text = _replaced(_ARGUMENTS, called_secret, text, memory)
    if "('" in text or '("' in text or "(b" in text:
        text = _replaced(_TUPLE, called_secret, text, memory)
    if "|" in text or "\u2502" in text or "\u2503" in text or "\u2506" in text:
        text = _replaced(_CELLS, _cell, text, memory)
    if "</" in text:
        text = _replaced(_ELEMENT, called_secret, text, memory)
    if "key" in lowered:
        text = _replaced(_BELOW, lambda name, value: called_secret("wandb.key", value), text, memory)
    if "input_value=" in text:
        text = _replaced(_INPUT, called_secret, text, memory)
    if "\n" in text:
        if "db>" in text or "Pdb" in text or ">>>" in text or "In [" in text:
            text = _replaced(_ASKED, called_secret, text, memory)
        text = _replaced(_NEXT_LINE, _alone, text, memory)
        text = _replaced(_OPTION_LINE, called_secret, text, memory)
        text = second(_FOLDED, memory.secret, text)
        if _SECRET_KIND.search(text):
            text = _DATA_BLOCK.sub(lambda match: match[1] + second(_ENTRY, memory.secret, match[3]), text)
    return text
