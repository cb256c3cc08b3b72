"""Whether a line in which a word of trouble stands speaks of trouble, or of settings, options and counts of nothing.

Namespace(batch=8, loglevel='warn', on_error='raise')     what a program was started with
{'log_level': 'warning', 'fail_fast': False}              the same as a dictionary
log_level: warning                                        one of a list
python train.py --log-level warning --fail-on never       a command
Setting log level to WARNING; NCCL_DEBUG set by environment to WARN
train_error 0.031 num_failures 3                          a metric's name
done, 0 errors, no warnings                               nothing of the kind

These parts of a line do not count. What a structured logger calls its level, its message or its error does, so does how
something ended (`upload: failed`, `JobState=FAILED`), and so do an exception's arguments.
"""

from __future__ import annotations

import re

# Words with which programs mark what is not as it should be (levels of Python's logging, glog, syslog, NCCL, C).
WORDS = ("warn", "error", "critical", "fatal", "fail", "exception", "traceback", "unable to", "cannot", "deprecated")

_ANY = re.compile("|".join(map(re.escape, WORDS)), re.I)
_LEVELS = r"(?:warn(?:ing)?|error|critical|fatal|debug|info|trace)s?"
# Keys under which schedulers and services put how something ended, and structured loggers (logfmt, JSON, zap,
# structlog) what happened.
_ENDED = r"(?i:(?:\w{1,20}_|job)?(?:status|state)|result|outcome)"
_TOLD = (
    r"(?i:level|lvl|levelname|severity|error|err|errors|failed|failures|exception|exc_info|msg|message|reason|event|warning"
    rf"|cause|detail|{_ENDED})"
)
_QUOTED = r"'(?:[^'\\\n]|\\.){0,2000}'|\"(?:[^\"\\\n]|\\.){0,2000}\""
_VALUE = rf"(?:{_QUOTED}|\[[^\[\]\n]{{0,2000}}\]|[^\s,;)\]}}]{{0,200}})"
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]{0,80})\((?=\w{1,80}=)")  # the `repr` of an object with its fields
_RAISED = re.compile(r"(?:Error|Exception|Warning|Exit|Interrupt)\Z")
_PARTS = re.compile(
    rf"(?i:\b(?:log(?:ging|ger)?[ _-]?level|loglevel|verbosity|NCCL_DEBUG)\b[^\n.;,]{{0,40}}?['\" =:(]{_LEVELS}\b)"
    rf"|(?<![\w.-])(?!{_TOLD}=)[A-Za-z_][\w.-]{{0,80}}={_VALUE}"
    rf"|['\"](?!{_TOLD}['\"])[A-Za-z_][\w.-]{{0,80}}['\"]\s?:\s?{_VALUE}"
    rf"|(?<!\S)--?[A-Za-z][\w-]{{0,80}}(?:(?:=|\s+)(?!-){_VALUE})?"
    r"|\b(?=[a-z0-9]{0,80}_)[a-z0-9_]{1,80}\b"  # names in snake_case: metrics, options, functions
    r"|(?i:(?<![\w.])(?:0|no|zero|without(?: any)?)\s+(?:\w{1,20}\s+)?(?:errors?|warnings?|failures?|exceptions?)\b)"
    r"|(?i:\b(?:errors?|warnings?|failures?|failed|exceptions?)['\"]?\s?[:=]\s?0\b(?!\.))"
    r"|\b(?:errors?|warnings?|failures?|failed|exception|exc_info)(?:=|['\"]\s?:\s?)"
    r"(?:[Nn]one|null|nil|[Ff]alse|\[\]|''|\"\")(?=[,;)\]}]|\s*\Z|\s\w+=)"
)
_LISTED = re.compile(
    rf"\s*(?:[-*]\s+)?(?!(?:(?:warn|error|critical|fatal|exception)\w*|{_ENDED})\s*:|(?:failed|failures):\s+[1-9])[a-z][\w.-]{{0,80}}\s*:\s+"
    r"(?!(?i:failed|failure)\b)\S{1,80}\s*\Z"
)


def speaks_of_trouble(text: str) -> bool:
    """Whether a word of trouble stands outside of what is a setting, an option, a name or a count of nothing."""
    if _LISTED.match(text):
        return False
    return _ANY.search(_PARTS.sub(" ", _without_objects(text))) is not None


def _without_objects(text: str) -> str:
    """A line without the objects that stand in it with their fields, save exceptions and warnings."""
    kept, at = [], 0
    for found in _CALL.finditer(text):
        if found.start() < at or _RAISED.search(found[1]):
            continue
        kept.append(text[at : found.start()])
        at = _closed(text, found.end())
    return " ".join([*kept, text[at:]])


def _closed(text: str, start: int) -> int:
    """Where the bracket closes that was opened before `start`; the end of the line where it does not."""
    depth, quote = 1, ""
    for place in range(start, len(text)):
        char = text[place]
        if quote:
            quote = "" if char == quote and text[place - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return place + 1
    return len(text)
