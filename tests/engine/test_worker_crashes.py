"""The kernel's word for a crash, where the process was a DataLoader's worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Role

LOG = """\
step 10 loss 2.0
Traceback (most recent call last):
  File "/app/train.py", line 80, in main
    for batch in loader:
  File "/opt/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1133, in _try_get_data
    raise RuntimeError('DataLoader worker (pid(s) {}) exited unexpectedly'.format(pids_str)) from e
RuntimeError: DataLoader worker (pid(s) 4499) exited unexpectedly
"""
CRASH = (
    "[Sat Nov 28 10:22:30 2026] python3[%d]: segfault at 0 ip 00007f2a11112222 sp 00007ffd11112222 error 4 in "
    "libopencv_core.so.4.5[7f2a00000000+1000]\n"
)


@pytest.mark.parametrize(("pid", "name"), [(4499, "dataloader-worker-segfault"), (4410, "rank-segfault")])
def test_whose_crash_it_is(tmp_path: Path, pid: int, name: str) -> None:
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "dmesg.txt").write_text(CRASH % pid)
    names = [f.name for f in analyse([str(tmp_path)]).of_role(Role.ROOT)]
    assert name in names
    assert len({"dataloader-worker-segfault", "rank-segfault"} & set(names)) == 1
