"""The line with which a log ends, without those by which launchers only pass on that something ended."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forensics.files import opened
from forensics.model import Source

# What a line of trouble says, in whatever program.
TROUBLE = re.compile(
    r"(?<![A-Za-z_])(?i:errors?|errno|exception|fatal|panic|abort(?:ed|ing)?|crash(?:ed)?|killed|core dumped|segfault"
    r"|segmentation fault|fail(?:ed|ure)|cannot|unable to|denied|refused|no such|corrupt(?:ed)?)(?![A-Za-z_])"
    r"|[a-z](?:Error|Exception)\b|\bCRITICAL\b|\bwhat\(\): |\bterminate called "
)
_TAIL = 16 << 10  # bytes of a log's end
_LINES = 30  # before the end, among which trouble is looked for
# srun, slurmstepd, kubectl, make, shells, CI runners, subprocess, conda run: an exit status, and not why.
_PASSED_ON = re.compile(
    r"srun: (?:error: .{0,200}(?:Exited with exit code|Terminated|Killed|Aborted)|Terminating |Force Terminated|"
    r"job abort|launch/slurm|got SIG)"
    r"|slurmstepd: error: \*\*\* STEP |command terminated with (?:non-zero )?exit code \d"
    r"|g?make(?:\[\d+\])?: \*\*\* .{0,200} (?:Error \d|Killed|Terminated|Aborted)"
    r"|\bexit(?:ed|ing|s)?(?: with)?(?: (?:status|code|exit code))?[:= ]{1,3}-?\d{1,3}\.?\s*\Z"
    r"|\breturned non-zero exit status\b|\bfailed with (?:exit )?(?:code|status)[:= ]{1,3}\d"
    r"|`conda run .{0,300}` failed",
    re.I,
)

# What LSF prints below a job's output (bsub's report), the body of HTCondor's events, and lines without a word.
_REPORT = re.compile(
    r"[\W_]*\Z|(?:CPU time|(?:Max|Average|Total Requested|Delta) (?:Memory|Swap)|Max (?:Processes|Threads)|Run time"
    r"|Turnaround time) ?:|Resource usage summary:|The output \(if any\) |Read file <|PS:\Z|Successfully completed\.\Z"
    r"|TERM_[A-Z_]+: |Sender: LSF System|Subject: Job \d|Job <.{0,300}> was submitted from|Job was executed on host"
    r"|<.{0,300}> was used as the |(?:Started|Terminated) at |Results reported |Your job looked like:|# LSBATCH"
    r"|\d{3} \(\d+\.\d+\.\d+\) |Usr \d+ \d\d:|\d+  -  (?:Run|Total|Image|Memory|Resident)"
    r"|\(\d\) (?:No core|Corefile|CPU times)"
)


def is_of_a_report(line: str) -> bool:
    """Whether a line is a scheduler's, below what a job printed, and tells nothing of why it ended."""
    return _REPORT.match(line) is not None


def passes_on(line: str) -> bool:
    """Whether a line says that something ended with a status, and not of what."""
    return _PASSED_ON.search(line) is not None


def ending(source: Source) -> str | None:
    """The last line that speaks of trouble before those that pass on a status; None where there is none.

    Of the log's last 30 lines, in its last 16 KiB. What cannot be read has none.
    """
    return before(_tail(source))


def last_told(source: Source) -> str | None:
    """The last line of a log that is not of a scheduler's report; None where its last 16 KiB hold none."""
    return next((line for line in reversed(_tail(source)) if not is_of_a_report(line) and not passes_on(line)), None)


def _tail(source: Source) -> list[str]:
    """The last lines of a log, without their prefixes; [] where it cannot be read."""
    from forensics.parsers.prefixes import clean

    try:
        with opened(source.file) as file:
            file.seek(max(source.size - _TAIL, 0))
            text = (file.read(_TAIL) or b"").decode("utf-8", "replace")
    except OSError:
        return []
    return [clean(line).text.strip() for line in text.splitlines()]


def before(lines: Sequence[str]) -> str | None:
    """The last line of trouble that passes on no status; None where there is none among the last thirty."""
    told = [line for line in lines if line][-_LINES:]
    return next((line for line in reversed(told) if not passes_on(line) and TROUBLE.search(line)), None)
