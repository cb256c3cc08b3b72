"""Numbers and texts into an event file; a full disk costs the record, and never the training."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from forensics.probe import records


class EventWriter:
    """Collects events and writes them at `flush`, in one go and to disk; gives up quietly after an OSError.

    folder: where the event file goes; made if need be. start: the step at which a resumed run goes on, or 0.
    """

    def __init__(self, folder: Path, *, start: int) -> None:
        self._events: list[bytes] = []
        self._file: BinaryIO | None = None
        now = time.time()
        # The name by which TensorBoard finds event files, and tells those of one folder apart.
        name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}.{os.getpid()}.probe"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / name).open("xb", buffering=0)
        except OSError as error:
            self._give_up(error)
            return
        self._events.append(records.version(now))
        if start:
            self._events.append(records.session(now, start))
        self.flush()

    def numbers(self, values: Mapping[str, float], step: int, when: float | None = None) -> None:
        """when: seconds since the epoch; now if it is not given."""
        if self._file is not None and values:
            self._events.append(records.numbers(time.time() if when is None else when, step, values))

    def text(self, tag: str, text: str, step: int, when: float | None = None) -> None:
        if self._file is not None:
            self._events.append(records.text(time.time() if when is None else when, step, tag, text))

    def flush(self) -> None:
        if self._file is None or not self._events:
            return
        events, self._events = self._events, []
        left = memoryview(records.framed(events))
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._give_up(error)
        self._file = None

    def _give_up(self, error: OSError) -> None:
        self._file = None
        warnings.warn(f"forensics.probe stops recording: {error}", RuntimeWarning, stacklevel=3)
