"""Hand-made diagnoses that the report tests share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forensics.model import (
    Coverage,
    Diagnosis,
    Evidence,
    Fact,
    Finding,
    MissingEvidence,
    Role,
    RuledOut,
    RunSummary,
    Status,
    Verdict,
)


def finding(**given: Any) -> Finding:
    """A finding of which only the interesting fields need be given."""
    fields: dict[str, Any] = {
        "id": "f1", "name": "gpu-oom", "codes": ("M1",), "title": "CUDA out of memory", "role": Role.ROOT,
        "severity": "fatal", "confidence": 0.97, "ranks": None, "local_ranks": None, "devices": None, "node": None,
        "step": None, "step_is": None, "step_unit": None, "epoch": None, "time": None, "time_is": None, "time_source": None,
        "attempt": None, "count": 1, "evidence": (), "captures": {}, "explains": (), "explained_by": None, "fix": (),
        "why": "",
    }  # fmt: skip
    return Finding(**{**fields, **given})


def diagnosis(*findings: Finding, **given: Any) -> Diagnosis:
    run: Mapping[str, Any] = {
        "path": "runs/17", "world_size": 4, "nodes": 2, "attempts": 1, "started": None, "ended": None,
    }  # fmt: skip
    fields: dict[str, Any] = {
        "run": RunSummary(**{**run, **given.pop("run", {})}),
        "verdict": Verdict.FAILED,
        "summary": "",
        "findings": findings,
        "ruled_out": (),
        "missing_evidence": (),
        "coverage": (),
    }
    return Diagnosis(**{**fields, **given})


def read(path: str, size: int = 1000, **given: Any) -> Coverage:
    return Coverage(path, "log", size, Status.READ, **given)


FAILED = diagnosis(
    finding(
        ranks=(2,), node="node-7", step=412, step_is="exact", step_unit="global step", attempt=0,
        time="2026-11-27T20:49:24.123Z", time_source="the line itself",
        evidence=(
            Evidence(
                "rank2/stderr.log", 1234, 567890,
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of "
                "79.15 GiB of which 1.01 GiB is free. Including non-PyTorch memory, this process has 78.13 GiB memory "
                "in use. Of the allocated memory 71.20 GiB is allocated by PyTorch, and 5.80 GiB is reserved by "
                "PyTorch but unallocated.",
            ),
            Evidence("rank2/stderr.log", 1229, 567001, '  File "train.py", line 88, in step\n    loss.backward()'),
        ),
        captures={"device": "2", "allocate": "2.00 GiB"}, explains=("f2", "f3", "f4"),
        fix=(
            "Lower the micro batch size, or shard more (FSDP full shard, ZeRO-3).",
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: 5.80 GiB is reserved and unused.",
        ),
        why="The GPU of rank 2 had 1.01 GiB left when the backward pass asked for 2.00 GiB. The process itself holds "
        "78.13 GiB, so no other process is to blame.",
        notes=("Memory in use grew by 3 MB a step from step 10 on.",),
    ),
    finding(
        id="f5", name="checkpoint-truncated", codes=("C4", "C5"), title="A checkpoint is truncated", severity="error",
        confidence=0.6, ranks=(0,), step=400, step_is="last_seen", step_unit="iteration",
        evidence=(Evidence("ckpt/step_400.pt", None, 1048576, "no central directory at the end of the archive"),),
        fix=("Resume from step 300.",), why="The file ends before its directory.",
    ),
    finding(
        id="f2", name="collective-timeout", codes=("N2",), title="A collective timed out", role=Role.CASCADE,
        severity="error", ranks=(0, 1), count=4, explained_by="f1",
        evidence=(Evidence("rank0/stderr.log", 99, 1, "Watchdog caught collective operation timeout"),),
    ),
    finding(
        id="f3", name="collective-timeout", codes=("N2",), title="A collective timed out", role=Role.CASCADE,
        severity="error", ranks=(3,), count=3, explained_by="f2",
    ),
    finding(
        id="f4", name="launcher-summary", codes=(), title="torchrun reports a failed child", role=Role.CASCADE,
        severity="info", explained_by="f1",
    ),
    finding(
        id="f6", name="overflow-warmup", codes=("P5",), title="Loss scale fell at the start", role=Role.CONTEXT,
        severity="info", count=6, ranks=(0, 1, 2, 3), why="Normal: the scaler starts high and halves until it fits.",
        evidence=(Evidence("rank0/stdout.log", 12, 400, "OVERFLOW! Skipping step"),),
    ),
    summary="CUDA out of memory on rank 2 at step 412; the other ranks only waited for it.",
    run={"started": "2026-11-27T20:10:00Z", "ended": "2026-11-27T20:49:30Z"},
    ruled_out=(
        RuledOut("host-oom", "no process was killed", (Evidence("dmesg.txt", 5, 100, "eth0: link up"),)),
        RuledOut("gpu-shared", "the process holds 78.13 of 79.15 GiB itself"),
    ),
    missing_evidence=(
        MissingEvidence("What was in GPU memory", "torch.cuda.memory._record_memory_history(), then _dump_snapshot"),
    ),
    coverage=(
        read("rank0/stderr.log", 12_345, rank=0),
        read("rank2/stderr.log", 1_200_000, rank=2),
        Coverage("rank3/stderr.log", "log", 9, Status.PARTIAL, "ends inside a line", 3, "node-7"),
        Coverage("core.4242", "binary", 10**9, Status.SKIPPED, "a core file"),
        Coverage("core.4243", "binary", 10**9, Status.SKIPPED, "a core file"),
        Coverage("rank1/stderr.log", "log", 7, Status.UNREADABLE, "permission denied"),
    ),
    environment=(
        Fact("torch.version", "2.2.2+cu121", "rank0/stderr.log", 3),
        Fact("cudnn.version", "8.9.2.26", "collect_env.txt", 17),
        Fact("model.hidden_size", "4096", "out/config.json", 5),
        Fact("training_args.learning_rate", "5e-05", "out/training_args.bin"),
    ),
    fingerprint="47bd574887884257",
)  # fmt: skip

HEALTHY = diagnosis(
    finding(
        id="f1", name="training-finished", codes=(), title="Training came to its end", role=Role.CONTEXT,
        severity="info", ranks=(0,), why="The last step of 1000 is logged, and a checkpoint was saved after it.",
        evidence=(Evidence("train.log", 2040, 99_000, "step 1000/1000 | loss 1.82"),),
    ),
    verdict=Verdict.HEALTHY,
    summary="The run reached step 1000 of 1000 and saved its last checkpoint.",
    run={"world_size": 1, "nodes": None, "started": "2026-11-27T20:10:00", "ended": "2026-11-27T21:10:00"},
    coverage=(read("train.log", 100_000), read("metrics.jsonl", 20_000)),
)  # fmt: skip

UNKNOWN = diagnosis(
    verdict=Verdict.UNKNOWN,
    summary="Nothing known went wrong here, and nothing shows that the run came to its end: the log stops at step 12.",
    run={"world_size": None, "nodes": None},
    missing_evidence=(
        MissingEvidence("the log of the other ranks", "torchrun --redirects 3 --log-dir logs"),
        MissingEvidence("whether the kernel killed the process", "dmesg -T on the node"),
    ),
    coverage=(read("out.txt", 800),),
)

_EVIL = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\ud800 </details><script>alert(1)</script> ``` ```` @octocat #123 "
    "[x](javascript:alert(1)) ![i](http://evil.example/a.png) | a | b |\r\n# heading\n- item\n<!-- "
)
HOSTILE = diagnosis(
    finding(
        name="unhandled-exception", codes=(), title="KeyError: " + _EVIL, confidence=float("nan"), ranks=(), node=_EVIL,
        step=10**30, step_is="first_logged", step_unit="iteration", epoch=float("inf"),
        time=_EVIL, time_source=_EVIL,
        attempt=3, captures={_EVIL: _EVIL}, evidence=(Evidence(_EVIL, 1, 0, _EVIL), Evidence("", None, None, "")),
        fix=(_EVIL, "`rm` nothing; mail a@b.example, GH-7 and o/r#9, www.evil.example"),
        why=_EVIL, notes=(_EVIL, "1. x"),
    ),
    finding(id="f2", role=Role.CASCADE, name=_EVIL, explained_by="f3"),
    finding(id="f3", role=Role.CASCADE, name="loop", explained_by="f2"),
    finding(id="f4", role=Role.CONTEXT, name=_EVIL, title=_EVIL, why=_EVIL, evidence=(Evidence(_EVIL, 2, 0, _EVIL),)),
    summary=_EVIL,
    run={"path": _EVIL, "started": _EVIL, "ended": _EVIL},
    ruled_out=(RuledOut(_EVIL, _EVIL, (Evidence(_EVIL, 2, 0, _EVIL),)),),
    missing_evidence=(MissingEvidence(_EVIL, _EVIL),),
    coverage=(Coverage(_EVIL, _EVIL, -1, Status.UNREADABLE, _EVIL, 0, _EVIL), Coverage("", "", 0, Status.READ)),
    environment=(Fact(_EVIL, _EVIL, _EVIL, -1), Fact("torch.version", _EVIL, _EVIL, 1)),
)  # fmt: skip

ALL = {"failed": FAILED, "healthy": HEALTHY, "unknown": UNKNOWN, "hostile": HOSTILE}
