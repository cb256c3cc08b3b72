"""How scenarios launch things: torchrun, a small srun-like launcher, and waiting for a line to appear."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_SHORT = 120.0  # seconds; no scenario takes as long, so a driver that waits longer is a mistake in the scenario


class Box:
    """The run directory of one scenario, and the ways to fill it. The working directory is /tmp/run."""

    def __init__(self, out: Path) -> None:
        self.out = out
        out.mkdir(parents=True, exist_ok=True)

    def torchrun(
        self,
        script: str,
        *args: str,
        nproc: int,
        log: str = "launcher.log",
        options: Sequence[str] = (),
        port: int | None = 29500,
        env: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `python -m torch.distributed.run`; its own stdout and stderr are appended to `log`, unless it is "".

        Without a port it runs --standalone, with a store of its own for each attempt: else gloo may find the addresses
        of the first attempt's processes in the second, and the restart fails of that, at random.
        """
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={nproc}"]
        command += [f"--master-port={port}", "--master-addr=127.0.0.1"] if port else ["--standalone"]
        command += [*options, script, *args]
        more = {} if port else {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        target = (self.out / log).open("ab") if log else subprocess.DEVNULL
        return subprocess.Popen(
            command, stdout=target, stderr=subprocess.STDOUT, env={**os.environ, **more, **(env or {})}
        )

    def per_rank(self, where: str = "logs") -> list[str]:
        """Options: one stdout.log and one stderr.log a rank under `where`, nothing on the launcher's streams."""
        return [f"--log-dir={self.out / where}", "--redirects=3"]

    def tee(self, where: str = "logs") -> list[str]:
        """Options: as `per_rank`, and every line also on the launcher's streams behind `[default<rank>]:`."""
        return [f"--log-dir={self.out / where}", "--redirects=3", "--tee=3"]

    def srun(self, script: str, *args: str, ntasks: int, log: str, env: dict[str, str] | None = None) -> list[int]:
        """Start the ranks as `srun --label` does: one merged file, each line behind `<task>: `, no failure table.

        As srun, it says which task ended badly, and with --kill-on-bad-exit ends the others. Returns the exit codes.
        """
        merged = (self.out / log).open("ab")
        lock = threading.Lock()

        def say(line: bytes) -> None:
            with lock:
                merged.write(line)
                merged.flush()

        def copy(task: int, stream: subprocess.Popen[bytes]) -> None:
            assert stream.stdout is not None
            for line in stream.stdout:
                say(b"%d: %s" % (task, line if line.endswith(b"\n") else line + b"\n"))

        tasks = []
        for task in range(ntasks):
            place = {"RANK": str(task), "LOCAL_RANK": str(task), "WORLD_SIZE": str(ntasks), "SLURM_PROCID": str(task)}
            place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "OMP_NUM_THREADS": "1"}
            tasks.append(
                subprocess.Popen(
                    [sys.executable, script, *args],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **place, **(env or {})},
                )
            )
        readers = [threading.Thread(target=copy, args=pair) for pair in enumerate(tasks)]
        for reader in readers:
            reader.start()
        codes = self._wait_all(tasks)
        for reader in readers:
            reader.join()
        for task, code in enumerate(codes):
            if code < 0:
                say(f"srun: error: node-0: task {task}: {signal.strsignal(-code)}\n".encode())
            elif code > 0:
                say(f"srun: error: node-0: task {task}: Exited with exit code {code}\n".encode())
        merged.close()
        return codes

    @staticmethod
    def _wait_all(tasks: Sequence[subprocess.Popen[bytes]]) -> list[int]:
        end = time.monotonic() + _SHORT
        for task in tasks:
            task.wait(max(0.1, end - time.monotonic()))
        return [task.returncode for task in tasks]

    @staticmethod
    def finish(process: subprocess.Popen[bytes], *, ok: bool) -> None:
        """Wait for a launch; complain where it did not end as the scenario says (so that no sample lies)."""
        code = process.wait(_SHORT)
        if (code == 0) != ok:
            raise SystemExit(f"exit status {code}, but the scenario expects {'success' if ok else 'a failure'}")

    @staticmethod
    def wait_until(happened: Callable[[], bool]) -> None:
        """Poll until something is so."""
        end = time.monotonic() + _SHORT
        while not happened():
            if time.monotonic() > end:
                raise SystemExit("what the scenario waits for did not happen")
            time.sleep(0.02)

    def wait_for(self, pattern: str, *files: str) -> re.Match[str]:
        """Poll files below the run directory (globs) until a line matches."""
        end = time.monotonic() + _SHORT
        while time.monotonic() < end:
            for path in (p for glob in files for p in self.out.glob(glob)):
                if found := re.search(pattern, path.read_text(errors="replace")):
                    return found
            time.sleep(0.02)
        raise SystemExit(f"no line like {pattern!r} in {files}")

    def last(self, pattern: str, *files: str) -> int:
        """The number in the last match of `pattern` (one group) in files below the run directory."""
        found = [m for glob in files for p in self.out.glob(glob) for m in re.findall(pattern, p.read_text())]
        if not found:
            raise SystemExit(f"no line like {pattern!r} in {files}")
        return int(found[-1])
