"""Files that by their names may be of ranks, and were written by the jobs of an array, one file each.

Slurm's default for arrays, `slurm-%A_%a.out`, and what users give for the tasks of one job, `slurm-%j_%t.out`, make the
same names. What the files say tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from forensics.patterns import lazy

HEAD = 64 << 10  # bytes of each file that are looked at: jobs print their environment and settings first
MOST = 64  # files of a group that are looked at

# Slurm's variables as scripts print them ("SLURM_ARRAY_TASK_ID=2", "Array task ID: 2"). Every job of an array has an id
# of its own, and all of them have that of the array (sbatch(1), "JOB ARRAY SUPPORT").
_ARRAY_TASK = lazy(
    rb"(?:SLURM_ARRAY_TASK_ID|\b[Aa]rray[ _][Tt]ask(?:[ _][Ii][Dd])?)[\"' ]{0,2}[=:]?[\"' ]{0,3}(\d{1,7})\b"
)
_JOB = lazy(rb"SLURM_JOB_?ID[\"' ]{0,2}[=:][\"' ]{0,3}(\d{1,12})\b")
_RANK = lazy(rb"\[rank(\d{1,6})\]")
# What argparse, dataclasses and Hugging Face print of their values, and the command lines of `set -x`.
_SETTINGS = lazy(
    rb"\b\w*(?:Namespace|[Aa]rg(?:ument)?s|[Cc]onfig|[Oo]ptions|[Hh]params)\((.{1,8000})\)"
    rb"|^\+* ?[^\n]{0,200}\bpython[\d.]* ([^\n]{1,2000})",
    re.M,
)
# Settings that the ranks of one job share. Seeds are none: many programs add the rank to theirs.
_SHARED = lazy(
    rb"(?<![\w-])(?:--)?(lr|learning[_-]rate|batch[_-]size|bs|weight[_-]decay|wd|dropout|momentum|optimizer|optim|epochs|max[_-]steps"
    rb"|hidden[_-](?:dim|size)|num[_-]layers|warmup[_-]steps|temperature|beta[12]?|gamma|alpha|model|arch|dataset)"
    rb"(?:=| +)[\"']?([\w.+/-]{1,80})"
)  # fmt: skip


def are_jobs(heads: Mapping[int, bytes]) -> bool:
    """Whether files were written by jobs of their own. heads: number in a file's name -> its first bytes.

    They are where each that says so has an array's index or a job id of its own, or where settings differ that the
    ranks of one job share. Files that speak for different ranks are of ranks, whatever started them.
    """
    if len(heads) < 2:
        return False
    ranks = {int(m[1]) for head in heads.values() for m in _RANK.finditer(head)}
    if len(ranks) > 1:
        return False
    indices = {number: own for number, head in heads.items() if (own := _only(_ARRAY_TASK, head)) is not None}
    if _are_own(list(indices.values())) or any(number > 0 and int(own) == number for number, own in indices.items()):
        return True
    if _are_own([own for head in heads.values() if (own := _only(_JOB, head)) is not None]):
        return True
    return _settings_differ([_settings(head) for head in heads.values()])


def _are_own(values: list[bytes]) -> bool:
    return len(values) > 1 and len(set(values)) == len(values)


def _only(pattern: re.Pattern[bytes], head: bytes) -> bytes | None:
    """The one value that a text gives; None where it gives none, or several."""
    found = {m[1] for m in pattern.finditer(head)}
    return found.pop() if len(found) == 1 else None


def _settings(head: bytes) -> dict[bytes, bytes]:
    """The shared settings of the first text that states any."""
    for m in _SETTINGS.finditer(head):
        if found := {each[1].replace(b"-", b"_"): each[2] for each in _SHARED.finditer(m[1] or m[2])}:
            return found
    return {}


def _settings_differ(each: list[dict[bytes, bytes]]) -> bool:
    """Whether all state their settings, the same ones, and some values differ."""
    return (
        all(each)
        and len({frozenset(found) for found in each}) == 1
        and len({tuple(sorted(f.items())) for f in each}) > 1
    )
