"""The place in the user's code that raised, also where a signature knows the exception or a library raised it first."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding

SHAPE = """\
Traceback (most recent call last):
  File "/w/train.py", line 31, in step
    out = model(batch)
  File "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x10)
"""
LOADER = """\
Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    for batch in loader:
  File "/v/lib/python3.11/site-packages/torch/_utils.py", line 733, in reraise
    raise exception
KeyError: Caught KeyError in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
  File "/w/shards.py", line 88, in __getitem__
    return self.table[key]
KeyError: 'sr-Latn'
"""
PANDAS = """\
Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/pandas/core/indexes/base.py", line 3805, in get_loc
    return self._engine.get_loc(casted_key)
  File "pandas/_libs/hashtable_class_helper.pxi", line 7096, in pandas._libs.hashtable.PyObjectHashTable.get_item
KeyError: 'label_v2'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/prep.py", line 18, in load
    y = df["label_v2"].to_numpy()
  File "/v/lib/python3.11/site-packages/pandas/core/indexes/base.py", line 3812, in get_loc
    raise KeyError(key) from err
KeyError: 'label_v2'
"""


def root(folder: Path, log: str) -> Finding:
    (folder / "train.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n" + log)
    return analyse([str(folder)], Options(threads=1)).findings[0]


@pytest.mark.parametrize(
    ("log", "name", "place"),
    [
        (SHAPE, "layer-shape-mismatch", "RuntimeError was raised at /w/train.py:31 in step"),
        (LOADER, "dataloader-worker-exception", "KeyError was raised at /w/shards.py:88 in __getitem__"),
        (PANDAS, "python-exception", "KeyError was raised at /w/prep.py:18 in load"),
    ],
)
def test_the_users_own_place_is_told(tmp_path: Path, log: str, name: str, place: str) -> None:
    found = root(tmp_path, log)
    assert found.name == name and any(place in note for note in found.notes)


def test_what_the_worker_raised_is_evidence(tmp_path: Path) -> None:
    assert [e.line for e in root(tmp_path, LOADER).evidence][:2] == [8, 14]


def test_a_later_traceback_that_does_not_hang_together_lends_no_frame(tmp_path: Path) -> None:
    apart = PANDAS.replace("The above exception was the direct cause of the following exception:", "retrying")
    assert all("/w/prep.py:18" not in note for note in root(tmp_path, apart).notes[:1])


def test_without_a_frame_of_the_user_no_place_is_made_up(tmp_path: Path) -> None:
    library = "".join(line for line in SHAPE.splitlines(True) if "train.py" not in line and "model(batch)" not in line)
    assert all("was raised at" not in note for note in root(tmp_path, library).notes)


SPAWN = """\
Traceback (most recent call last):
  File "/w/main.py", line 62, in <module>
    mp.spawn(worker, nprocs=4, args=(4,))
  File "/v/lib/python3.6/site-packages/torch/multiprocessing/spawn.py", line 119, in join
    raise Exception(msg)
Exception:

-- Process 2 terminated with the following error:
Traceback (most recent call last):
  File "/v/lib/python3.6/site-packages/torch/multiprocessing/spawn.py", line 20, in _wrap
    fn(i, *args)
  File "/w/main.py", line 40, in worker
    batch = loader["val"]
KeyError: 'val'
"""


def test_what_spawn_passes_on_is_the_cause_and_not_the_exception_that_quotes_it(tmp_path: Path) -> None:
    found = root(tmp_path, SPAWN)
    assert found.name == "python-exception" and found.evidence[0].text.startswith("KeyError")


def test_an_exception_above_one_that_it_does_not_quote_stays_the_first(tmp_path: Path) -> None:
    found = root(tmp_path, SPAWN.replace("-- Process 2 terminated with the following error:", "no GPU left"))
    assert found.evidence[0].text.startswith("Exception")


OF_RAY = """\
(TorchTrainer pid=300) Started distributed worker processes:
(TorchTrainer pid=300) - (node_id=ab, ip=10.0.0.7, pid=411) world_rank=0, local_rank=0, node_rank=0
(TorchTrainer pid=300) - (node_id=cd, ip=10.0.0.8, pid=512) world_rank=1, local_rank=0, node_rank=1
{head}ray::_RayTrainWorker__execute.get_next() (pid=512, ip=10.0.0.8, actor_id=ff, repr=<RayTrainWorker object at 0x7f>)
  File "/p/ray_train.py", line 14, in loop
    y = ys[i]
IndexError: list index out of range
"""


@pytest.mark.parametrize(
    "head",
    [
        "",
        "ray.exceptions.RayTaskError(IndexError): ",
        'Traceback (most recent call last):\n  File "/v/lib/python3.11/site-packages/ray/_private/worker.py", line 27, in'
        " get\n    raise value.as_instanceof_cause()\nray.exceptions.RayTaskError(IndexError): ",
    ],
)
def test_what_a_worker_of_ray_raised_is_its_own(tmp_path: Path, head: str) -> None:
    found = root(tmp_path, OF_RAY.format(head=head))
    assert (found.name, found.ranks, found.node) == ("python-exception", (1,), "10.0.0.8")
    assert any("IndexError was raised at /p/ray_train.py:14 in loop" in note for note in found.notes)
    assert found.count == 1


def test_a_line_that_names_a_worker_of_ray_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "ray.log").write_text("step 1 loss 2.0\nray::train() (pid=5, ip=10.0.0.8) is slow\nstep 2 loss 1.9\n")
    assert not analyse([str(tmp_path)], Options(threads=1)).findings
