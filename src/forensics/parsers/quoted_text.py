"""Texts that a run reads or writes, in the middle of its log: samples, prompts and previews that quote a failure.

A language model is trained on texts about crashes and prints some: the line "Segmentation fault (core dumped)" of a
preview is nobody's fault. Such a text is told by what programs put around it: the marks of chat templates, a line that
begins samples with one that ends them, or the name of a field (`hyp:`, `completion:`) before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forensics.parsers.severity import level_of
from forensics.patterns import lazy

AROUND = 60  # lines above and below within which a text begins and ends
# Marks of the chat templates of ChatML, Llama 2 and 3, Gemma, Phi and Zephyr (their tokenizer_config.json).
_BEGINS = lazy(
    r"<\|im_start\|>|<\|start_header_id\|>|<\|begin_of_text\|>|<start_of_turn>|\[INST\]|<\|(?:system|user|assistant)\|>"
)
_ENDS = lazy(r"<\|im_end\|>|<\|eot_id\|>|<\|end_of_text\|>|<end_of_turn>|\[/INST\]|<\|end\|>|<\|endoftext\|>|</s>")
_RULED = lazy(
    r"^\s*[-=#*~]{3,}\s*(?:samples?|generat(?:ed|ions?)|completions?|prompts?|examples?|preview)\b.{0,200}$", re.I
)
_RULED_END = lazy(r"^\s*[-=#*~]{3,}\s*end\b.{0,80}$", re.I)
# The field whose value a line shows, behind few words: fairseq's T-12 and H-12 (fairseq_cli/generate.py) among them.
_FIELD = lazy(
    r"(?:^|[\s|({\[\"'])(?:hyp(?:othes[ei]s)?|ref(?:erence)?|prompt|completion|generated(?:[ _]text)?|decoded"
    r"|translation|transcript(?:ion)?|caption|question|answer|instruction)s?[\"']?(?: \d{1,6})?\s?(?:: |=|:$|\|)"
    r"|(?:^|\s)[STHDP]-\d{1,9}\t",
    re.I,
)
_WORDS_BEFORE = 8  # of a record's head: time, level, logger and what is shown
_TROUBLE = lazy(
    r"(?i)error|exception|fail|fatal|abort|warn|could not|cannot|unable|refus|denied|kill|fault|invalid|bad|broken|skip"
)


def is_field(text: str) -> bool:
    """Whether a line shows the value of a field that holds a text, and its writer gives it out as no trouble."""
    m = _FIELD.search(text[:400])
    if m is None:
        return False
    head = text[: m.start()]
    return len(head.split()) <= _WORDS_BEFORE and not _TROUBLE.search(head) and level_of(text) is None


def is_within(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a text that is marked as one begins in the lines above and ends in those below.

    before, after: the lines above and below a line, at most AROUND of which are looked at.
    """
    above, below = before[-AROUND:], after[:AROUND]
    if _open(above, _BEGINS, _ENDS) and any(_ENDS.search(line) for line in below):
        return True
    return _open(above, _RULED, _RULED_END) and any(_RULED_END.search(line) for line in below)


def _open(lines: Sequence[str], begins: re.Pattern[str], ends: re.Pattern[str]) -> bool:
    """Whether the last mark among the lines is one of a beginning."""
    for line in reversed(lines):
        first, last = (max((m.start() for m in mark.finditer(line)), default=-1) for mark in (begins, ends))
        if max(first, last) >= 0:
            return first > last
    return False
