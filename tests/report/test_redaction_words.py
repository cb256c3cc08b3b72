"""Words that stand where names do: turns of a chat, and folders beside those of users."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor

CHATS = [
    "user: hello",
    "User: Hello, how are you?",
    "USER: What is the capital of France? ASSISTANT: Paris",
    "USER: hello ASSISTANT: hi",
    "user: Will it rain today",
    "user: Quantum physics is what?",
    '{"role": "user", "content": "hello"}',
    '"messages": [{"user": "hello"}, {"assistant": "hi"}]',
    "author: the author of this text",
    "<|im_start|>user: summarize the text below",
]
FOLDERS = [
    "/scratch/checkpoints/step10/model.pt",
    "/scratch/datasets/pile/x.bin /scratch/code/train.py /scratch/data/x /scratch/logs/a.log /scratch/models/llama/x",
    "/net/scratch/data/x /scratch2/ckpts/x /scratch/job_1234/x",
]
PEOPLE = [
    ("user: jdoerr", "user: user-1"),
    ("user: jdoerr logged in", "user: user-1 logged in"),
    ("USER: jdoerr", "USER: user-1"),
    ("user=hello", "user=user-1"),
    ("user: will", "user: user-1"),
    ('"user": "alice"', '"user": "user-1"'),
    ("/scratch/jdoerr/checkpoints/x", "/scratch/user-1/checkpoints/x"),
    ("/scratch/users/jdoerr/x", "/scratch/users/user-1/x"),
]


@pytest.mark.parametrize("text", CHATS + FOLDERS)
def test_words_stay(text: str) -> None:
    assert Redactor().redact(text) == text


@pytest.mark.parametrize(("text", "expected"), PEOPLE)
def test_people_go(text: str, expected: str) -> None:
    assert Redactor().redact(text) == expected
