"""Numbers and texts into an event file; a full disk costs the record, and never the training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class EventWriter:
    """A `SummaryWriter` that writes all numbers of a step as one record and gives up quietly after an OSError.

    folder: where the event file goes; made if need be. start: the step at which a resumed run goes on, or 0.
    flush_seconds: how old the file on disk may be.
    """

    def __init__(self, folder: Path, *, start: int, flush_seconds: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = None
        try:
            self._writer = SummaryWriter(
                str(folder), purge_step=start or None, flush_secs=flush_seconds, filename_suffix=".probe"
            )
        except OSError as error:
            self._give_up(error)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        if self._writer is None or not values:
            return
        from tensorboard.compat.proto.summary_pb2 import Summary

        try:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
            self._writer._get_file_writer().add_summary(summary, step)
        except OSError as error:
            self._give_up(error)

    def text(self, tag: str, text: str, step: int) -> None:
        if self._writer is not None:
            try:
                self._writer.add_text(tag, text, step)
            except OSError as error:
                self._give_up(error)

    def flush(self) -> None:
        if self._writer is not None:
            try:
                self._writer.flush()
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                self._give_up(error)
        self._writer = None

    def _give_up(self, error: OSError) -> None:
        self._writer = None
        warnings.warn(f"forensics.probe stops recording: {error}", RuntimeWarning, stacklevel=3)
