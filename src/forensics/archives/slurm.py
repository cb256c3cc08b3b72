"""`sacct --json` and `scontrol show job --json`, as the rows that these print without it.

Both print one object with a list "jobs". Its fields changed with Slurm's data parsers (21.08 to 24.11): a state is a
string or a list of a state and flags, a number itself or `{"set": ..., "infinite": ..., "number": ...}`, an exit code a
wait status or an object with `return_code` and `signal` (src/plugins/openapi and src/plugins/data_parser of Slurm).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from forensics.archives.collected import at
from forensics.archives.limits import Stop

DOCUMENT = 64 << 20  # bytes of one document; a job takes some 5 KB, and its steps as much each
COLUMNS = "JobID|JobName|Partition|State|ExitCode|NodeList"
_BEGINS = re.compile(rb'\s*\{\s*"(?:jobs|meta|errors|warnings|last_backfill|last_update)"\s*:')
_OF_SLURM = re.compile(rb'"derived_exit_code"\s*:')
# Base states (slurm.h, enum job_states); what else stands in a list are flags: COMPLETING, REQUEUED, RESIZING.
_STATES = frozenset(
    "PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE "
    "OUT_OF_MEMORY".split()
)


def looks_like_jobs(head: bytes) -> bool:
    """Whether a file that begins with these bytes is such a document."""
    return _BEGINS.match(head) is not None and b'"jobs"' in head and _OF_SLURM.search(head) is not None


def text(raw: BinaryIO) -> Iterator[bytes]:
    """The rows of the jobs and their steps, as `sacct -P` or `scontrol show job` print them. Raises Stop."""
    data = raw.read(DOCUMENT + 1)
    if len(data) > DOCUMENT:
        raise Stop(f"a JSON document of more than {DOCUMENT >> 20} MiB; it was not read")
    try:
        document = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        raise Stop("damaged: it is no whole JSON document") from None
    jobs = document.get("jobs") if isinstance(document, dict) else None
    found = [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
    lines = _shown(found) if any("job_state" in job for job in found) else _accounted(found)
    yield "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _accounted(jobs: list[dict[str, Any]]) -> Iterator[str]:
    yield COLUMNS
    for job in jobs:
        number = _job(job)
        state = at(job, "state", "current")
        if number is None:
            continue
        yield _row(number, job.get("name"), job.get("partition"), _state(state, _killer(job)), job, job.get("nodes"))
        steps = job.get("steps")
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, dict) and (own := _step(step)) is not None:
                name, nodes = at(step, "step", "name"), at(step, "nodes", "range")
                yield _row(f"{number}.{own}", name, "", _state(step.get("state"), None), step, nodes)


def _row(number: str, name: Any, partition: Any, state: str, of: dict[str, Any], nodes: Any) -> str:
    return "|".join((number, _cell(name), _cell(partition), state, _exit_code(of.get("exit_code")), _cell(nodes)))


def _shown(jobs: list[dict[str, Any]]) -> Iterator[str]:
    for job in jobs:
        number = _number(job.get("job_id"))
        if number is None:
            continue
        array, task = _number(job.get("array_job_id")), _number(job.get("array_task_id"))
        of_array = f" ArrayJobId={array} ArrayTaskId={task}" if array and task is not None else ""
        yield f"JobId={number}{of_array} JobName={_cell(job.get('name'))}"
        reason = _cell(job.get("state_reason")) or "None"
        yield f"   JobState={_state(job.get('job_state'), None)} Reason={reason}"
        yield f"   ExitCode={_exit_code(job.get('exit_code'))}"
        yield f"   NodeList={_cell(job.get('nodes'))}"
        yield f"   BatchHost={_cell(job.get('batch_host'))}"
        yield ""


def _job(job: dict[str, Any]) -> str | None:
    number = _number(job.get("job_id"))
    array, task = _number(at(job, "array", "job_id")), _number(at(job, "array", "task_id"))
    if array and task is not None:
        return f"{array}_{task}"
    return None if number is None else str(number)


def _step(step: dict[str, Any]) -> str | None:
    """The step's own part of its id: "batch" of {"step_id": "batch"} or "4242.batch", "0" of a number."""
    told = at(step, "step", "id")
    told = told.get("step_id") if isinstance(told, dict) else told
    if isinstance(told, str):
        last = told.rpartition(".")[2]
        return last if re.fullmatch(r"\w{1,40}", last, re.ASCII) else None
    number = _number(told)
    return None if number is None else str(number)


def _killer(job: dict[str, Any]) -> str | None:
    """The user id that asked for the end; the name that newer versions print instead stands in no row."""
    user = job.get("kill_request_user")
    return user if isinstance(user, str) and user.isascii() and user.isdigit() else None


def _state(value: Any, killer: str | None) -> str:
    words = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
    state = next((w for w in words if w in _STATES), words[0] if words else "")
    state = _cell(state)
    return f"{state} by {killer}" if state == "CANCELLED" and killer else state


def _exit_code(value: Any) -> str:
    """`<exit code>:<signal>`, as Slurm prints it; "" where it is not told."""
    if (status := _number(value)) is not None:  # a wait status
        return f"{status >> 8 & 0xFF}:{status & 0x7F}"
    code = _number(at(value, "return_code"))
    signal = at(value, "signal")
    told = _number(signal.get("signal_id", signal.get("id"))) if isinstance(signal, dict) else _number(signal)
    return "" if code is None and told is None else f"{code or 0}:{told or 0}"


def _number(value: Any) -> int | None:
    """A number, or what an object with `set` and `number` holds; None where it is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    return value if type(value) is int and 0 <= value < 1 << 32 else None


def _cell(value: Any) -> str:
    return re.sub(r"[|\s]+", "_", value.strip())[:1000] if isinstance(value, str) else ""
