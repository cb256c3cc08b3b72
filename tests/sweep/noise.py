"""Circumstances of a run that say nothing of what went wrong with it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

YEAR = 2026  # of the samples; lines of c10 and glog bear none
END = datetime(YEAR, 11, 28, 3, 30, tzinfo=UTC).timestamp()  # all samples were written by then
# Counters of batches and bars, which steps would no longer fit if those were multiplied.
UNCOUNTABLE = rb"%\||: \[\d+\]\[ *\d+/"

_DATED = re.compile(rb"\b(20\d\d)-(\d\d)-(\d\d)([ T_])(\d\d):(\d\d):(\d\d)")
_GLOG = re.compile(rb"(?<![A-Za-z0-9])([IWEF])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?=\.)")
_CLOCK = re.compile(rb"^((?:\d+: )?)(\d\d):(\d\d):(\d\d)(?= \|)", re.M)
_UNIX = re.compile(rb"\b(1[67]\d{8})\b")
_HOST = re.compile(rb"\bnode-0\b|\bvm(?=:\d)")
_PID = re.compile(rb"((?:\(pid: |PID |[Ss]ending process |tfevents\.\d+\.[a-z0-9-]+\.|vm:))(\d+)(?::(\d+))?")
_GLOG_PID = re.compile(rb"([IWEF]\d{4} [\d:.]+ )(\d+)(?= )")
_IDS = re.compile(rb"\b(none_|slurm-)([a-z0-9]{8}\b|\d{4}\b)")
_STEP = re.compile(
    rb"(?i)(\b(?:step|iteration|iter)s?(?:_|[\"']?[ :=]{0,3}))( *\d+)((?: */ *)?)( *\d+)?(?![\d.]*\d* ?ms)"
)
_AFTER = re.compile(rb"(\bafter )(\d+)(?= steps)")
_PATHS = re.compile(rb"(?<![\w./-])(?:/tmp/run|/home/user/examples|/opt/torch)(?=/)")
_METRIC_LINE = re.compile(rb"(?i)^\S.*\b(?:step|iter(?:ation)?)\b.*\bloss\b.*\d$")

_HOSTS = ("node-{}", "gpu{}", "dgx-{:03d}", "nid{:06d}", "compute-{}-12", "worker-{}", "trn{:04d}.cluster.local")
_FOLDERS = ("/scratch/{}", "/mnt/data/{}", "/fsx/users/{}/train", "/home/{}", "/workspace/{}", "/gpfs/project/{}/run 2")
_NAMES = ("u0412", "mlteam", "llm", "sweeps", "ab12", "vision")
# What healthy runs of common programs print; each line stands by itself and bears no time.
_CHATTER = (
    "job {n} began with seed {n}",
    "[INFO] GPU memory: {n} MiB allocated, {n} MiB reserved",
    "Using the `WANDB_DISABLED` environment variable is deprecated and will be removed in v5.",
    "wandb: Tracking run with wandb version 0.19.{d}",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used."
    " Disabling parallelism to avoid deadlocks...",
    "Found {d} shards, {n} samples; prefetching",
    "The attention mask and the pad token id were not set.",
    "warnings.warn('Error handling of this option will change in version 2.{d}', DeprecationWarning)",
    "saved sample images to out/{n}.png",
    "val queue: {d} pending, {d} done, 0 failed",
    "throughput {n} tokens/s, data {d} ms, 0 errors",
    "INFO: healthcheck ok ({d} ms)",
)


def _number(text: bytes, factor: int) -> bytes:
    """A number with its leading spaces, multiplied; it takes no more room than it must."""
    digits = text.strip()
    return str(int(digits) * factor).encode().rjust(len(text), b"0" if digits.startswith(b"0") else b" ")


@dataclass(frozen=True)
class Noise:
    """One job's circumstances. shift: seconds by which all times differ. stride: by which steps are multiplied."""

    shift: int
    stride: int
    host: bytes
    folder: bytes
    pids: int
    ids: dict[bytes, bytes] = field(default_factory=dict)
    draw: random.Random = field(default_factory=random.Random)

    def name(self, path: str) -> str:
        """The path of a file under these circumstances."""
        return self._said(path.encode()).decode()

    def text(self, data: bytes, *, chatter: bool = True) -> bytes:
        """A log, or lines of JSON."""
        said = self._said(_PATHS.sub(lambda m: self.folder, data))
        return self._talked(said) if chatter and said else said

    def _said(self, data: bytes) -> bytes:
        data = _DATED.sub(self._dated, data)
        data = _GLOG_PID.sub(lambda m: m[1] + self._pid(m[2]), data)
        data = _GLOG.sub(self._glog, data)
        data = _CLOCK.sub(self._clock, data)
        data = _UNIX.sub(lambda m: str(int(m[1]) + self.shift).encode(), data)
        data = _PID.sub(lambda m: m[1] + self._pid(m[2]) + (b":" + self._pid(m[3]) if m[3] else b""), data)
        data = _HOST.sub(self.host, data)
        data = _IDS.sub(self._id, data)
        if self.stride > 1:
            data = _STEP.sub(self._steps, data)
            data = _AFTER.sub(lambda m: m[1] + _number(m[2], self.stride), data)
        return data

    def _moved(self, *parts: int) -> datetime | None:
        try:
            return datetime(*parts, tzinfo=UTC) + timedelta(seconds=self.shift)
        except ValueError:
            return None

    def _dated(self, m: re.Match[bytes]) -> bytes:
        moved = self._moved(int(m[1]), int(m[2]), int(m[3]), int(m[5]), int(m[6]), int(m[7]))
        return m[0] if moved is None else moved.strftime(f"%Y-%m-%d{m[4].decode()}%H:%M:%S").encode()

    def _glog(self, m: re.Match[bytes]) -> bytes:
        moved = self._moved(YEAR, int(m[2]), int(m[3]), int(m[4]), int(m[5]), int(m[6]))
        return m[0] if moved is None else m[1] + moved.strftime("%m%d %H:%M:%S").encode()

    def _clock(self, m: re.Match[bytes]) -> bytes:
        moved = self._moved(YEAR, 11, 28, int(m[2]), int(m[3]), int(m[4]))
        return m[0] if moved is None else m[1] + moved.strftime("%H:%M:%S").encode()

    def _pid(self, digits: bytes) -> bytes:
        return str(int(digits) + self.pids).encode()

    def _id(self, m: re.Match[bytes]) -> bytes:
        kind, old = m[1], m[2]
        if old not in self.ids:
            letters = "0123456789" if kind == b"slurm-" else "abcdefghijklmnopqrstuvwxyz0123456789_"
            self.ids[old] = "".join(self.draw.choice(letters) for _ in old).encode()
        return kind + self.ids[old]

    def _steps(self, m: re.Match[bytes]) -> bytes:
        total = m[3] + _number(m[4], self.stride) if m[4] and m[3] else (m[3] or b"") + (m[4] or b"")
        return m[1] + _number(m[2], self.stride) + total

    def _talked(self, data: bytes) -> bytes:
        """The log with a few more lines: at its head, and between lines of metrics."""
        lines = data.split(b"\n")
        places = [i for i in range(1, len(lines)) if _METRIC_LINE.match(lines[i - 1]) and _METRIC_LINE.match(lines[i])]
        chosen = {0, *self.draw.sample(places, min(len(places), self.draw.randrange(1, 9)))}
        out: list[bytes] = []
        for i, line in enumerate(lines):
            if i in chosen:
                text = self.draw.choice(_CHATTER if i else _CHATTER[:3])
                out.append(text.format(n=self.draw.randrange(10**6), d=self.draw.randrange(1, 10)).encode())
            out.append(line)
        return b"\n".join(out)


def drawn(draw: random.Random, *, countable: bool = True) -> Noise:
    """The circumstances of a job: two to three years before the samples, on another host.

    countable: whether steps can be multiplied, as if only every tenth or fiftieth had been logged.
    """
    days = draw.randrange(700, 1100)
    return Noise(
        shift=-(days * 86400 + draw.randrange(86400)),
        stride=draw.choice((1, 1, 10, 50)) if countable else 1,
        host=draw.choice(_HOSTS).format(draw.randrange(100, 900)).encode(),
        folder=draw.choice(_FOLDERS).format(draw.choice(_NAMES)).encode(),
        pids=draw.randrange(1000, 4_000_000),
        draw=draw,
    )
