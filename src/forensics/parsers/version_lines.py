"""Lines of nothing but versions, with which scripts say by hand what they run on.

torch 2.4.1+cu124 | CUDA 12.4 | python 3.11.9
Python 3.10.14 (main, Mar 19 2024, 10:00:00) [GCC 11.4.0]      sys.version behind its name
torch 2.4.0, cuDNN 90100, NCCL (2, 20, 5)                      as torch.backends and torch.cuda have them
pytorch-lightning v2.4.0
Using torch==2.5.1 (CUDA 12.1), transformers==4.46.3

A line that says anything else is a sentence: what it asks for, or what another version had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from forensics.parsers.prefixes import clean
from forensics.parsers.run_files.listings import normal
from forensics.patterns import lazy

LONGEST = 400  # characters of a line, with what a launcher and a logger put in front

# Names under which programs speak of what they run on -> the package that lists of packages have.
_PACKAGES = {
    "pytorch": "torch", "torch": "torch", "cuda": "cuda", "cudnn": "cudnn", "nccl": "nccl", "rocm": "rocm",
    "hip": "hip", "python": "python", "driver": "driver", "nvidia driver": "driver", "numpy": "numpy",
    "torchvision": "torchvision", "torchaudio": "torchaudio", "triton": "triton", "transformers": "transformers",
    "accelerate": "accelerate",
    "datasets": "datasets", "tokenizers": "tokenizers", "peft": "peft", "trl": "trl", "deepspeed": "deepspeed",
    "lightning": "lightning", "pytorch lightning": "pytorch-lightning", "pytorch-lightning": "pytorch-lightning",
    "flash-attn": "flash-attn", "flash_attn": "flash-attn", "xformers": "xformers", "apex": "apex",
    "bitsandbytes": "bitsandbytes", "megatron-core": "megatron-core", "transformer engine": "transformer-engine",
    "transformer-engine": "transformer-engine", "jax": "jax", "jaxlib": "jaxlib", "flax": "flax",
    "tensorflow": "tensorflow", "ray": "ray", "vllm": "vllm", "timm": "timm", "mmcv": "mmcv", "mmengine": "mmengine",
}  # fmt: skip
_NAME = "|".join(sorted(map(re.escape, _PACKAGES), key=len, reverse=True))
_SAID = r"(?:[ _-]?version|\.__version__)?\s{0,8}(?:==|[:=])?\s{0,8}"
_NUMBER = r"v?\d+\.\d[\w.+-]{0,40}"
_TUPLE = r"\(\d{1,3}(?:, \d{1,3}){1,2}\)"
_WHOLE = r"\d{4,6}\b(?!\.)"  # 90100, as cuDNN and old NCCL count
# What `sys.version` says behind the number: the build, and the compiler.
_BUILD = (
    r"(?:\s\|[^|\n]{1,60}\|)?"
    r"(?:\s\((?:main|default|tags/|heads/|[0-9a-f]{7,})[^()\n]{0,80}\)(?:\s?\[[^\]\n]{1,60}\])?)?"
)
# What fits is not tried in another way, so that a line of many versions that ends otherwise costs no more.
_ITEM = rf"(?>(?:cudnn|nccl){_SAID}(?:{_TUPLE}|{_WHOLE})|(?:{_NAME}){_SAID}{_NUMBER}{_BUILD})"
_VERSIONS = lazy(
    rf"(?i)^\W{{0,4}}(?:(?:using|running|loaded|with|on)\s){{0,2}}{_ITEM}"
    rf"(?:(?>\s{{0,4}}(?:[,;|/(]|\)[,;|/]?|\band\b|\bwith\b|\bon\b|\s)\s{{0,4}}){_ITEM}){{0,12}}+\W{{0,3}}$"
)
_ONE = lazy(rf"(?i)\b({_NAME}){_SAID}v?(\d+\.\d[\w.+-]{{0,40}}?(?=[\s,;|/)]|\Z)|{_TUPLE}|{_WHOLE})")
_USES = lazy(r"(?i)\W{0,4}(?:using|running|loaded|with|on)\s")
_STATED = lazy(r"\s*[^\s-][^\n]*[,;|]")  # in one row: what is asked for has a line each, or blanks between
_MENTION = lazy(rf"\b(?:{_NAME}){_SAID}[v(]?\d")
_VERSION_OF = lazy(r"[ _.-]?(?:version|__version__)\Z")
# A logger's level and name between its time and what it says.
_HEAD = lazy(
    r"^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,12}\s+|\[[^\]\n]{1,48}\]:?\s+|[\w.]{1,40}\s-\s|-\s|\|\s+"
    r"|(?:DEBUG|INFO|WARNING):[\w.]{1,60}:|(?:DEBUG|INFO|WARNING|root)\b[\s:|-]*){0,6}"
)


def without_logger(line: str) -> str:
    """A line without what a logger puts in front of it. line: without the prefixes of launchers."""
    return _HEAD.sub("", line, count=1).rstrip("\r")


def versions(message: str) -> list[tuple[str, str]]:
    """(package, version) of each item of a line of nothing but versions; nothing of another line."""
    if not _VERSIONS.match(message):
        return []
    if "==" in message and not _USES.match(message) and not _STATED.match(message):
        return []  # as a list of what is asked for has it
    found = [(normal(_PACKAGES[name.lower()]), version) for name, version in _ONE.findall(message)]
    return [(package, ".".join(re.findall(r"\d+", v)) if v.startswith("(") else v) for package, v in found]


def package(name: str) -> str | None:
    """The package that goes by a name as programs speak of it (`PyTorch`, `torch_version`, `CUDA version`), or None."""
    known = _PACKAGES.get(_VERSION_OF.sub("", name.lower().strip()))
    return normal(known) if known is not None else None


def stated(head: str) -> Iterator[tuple[str, str, int]]:
    """(package, version, line) of the lines of versions at the head of a log."""
    for number, line in enumerate(head.split("\n"), start=1):
        # Few lines name a package and a number; of the others no prefix need be known.
        if len(line) <= LONGEST and _MENTION.search(line.lower()):
            for package, version in versions(without_logger(clean(line).text)):
                yield package, version, number
