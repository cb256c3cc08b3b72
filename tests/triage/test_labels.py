"""Labels from what shells, container runtimes and programs print, and from settings on one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.model import Fact
from forensics.parsers.run_files import read_head
from forensics.triage.batch import Options, triage
from forensics.triage.labels import labels_of
from forensics.triage.pool import Limits
from tests.triage.test_batch import here


def labels(text: str) -> dict[str, str]:
    return labels_of([Fact(i.path, i.value, "train.log", i.line) for i in read_head(text)])


DESCRIBED = """\
Containers:
  trainer:
    Container ID:  containerd://aaa
    Image:         registry.example.com/ml/train:v1.8.3
    Image ID:      registry.example.com/ml/train@sha256:0011223344
"""


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("APPTAINER_CONTAINER=/images/pytorch_24.05.sif\nAPPTAINER_NAME=x.sif\n", "pytorch_24.05.sif"),
        ("SINGULARITY_CONTAINER=/home/a/pytorch_24.05.sif\nSINGULARITY_BIND=/scratch\n", "pytorch_24.05.sif"),
        ("pyxis: importing docker image: nvcr.io#nvidia/pytorch:24.05-py3\n", "nvcr.io/nvidia/pytorch:24.05-py3"),
        ("0: pyxis: imported docker image: pytorch/pytorch:2.4.0\n", "pytorch/pytorch:2.4.0"),
        ("Status: Downloaded newer image for pytorch/pytorch:2.4.0\n", "pytorch/pytorch:2.4.0"),
        ("Status: Image is up to date for pytorch/pytorch:2.4.0\n", "pytorch/pytorch:2.4.0"),
        (DESCRIBED, "registry.example.com/ml/train:v1.8.3"),
        ('  Normal  Pulled  5m  kubelet  Successfully pulled image "a.example/b:1" in 2s\n', "a.example/b:1"),
        ("NVIDIA Release 24.05 (build 91431255)\n", "24.05"),
        ("+ singularity exec --nv --bind /d:/d /images/train_1.7.sif python train.py\n", "train_1.7.sif"),
        ("+ apptainer run --overlay /x.simg docker://a.example/b:1 python t.py\n", "docker://a.example/b:1"),
        ("++ srun -N 2 --container-image=/images/train.sqsh --container-mounts=/d:/d python t.py\n", "train.sqsh"),
        ("+ srun --container-image nvcr.io#nvidia/pytorch:24.05-py3 python t.py\n", "nvcr.io/nvidia/pytorch:24.05-py3"),
        ("+ docker run --rm -it --gpus all -v /d:/d --ipc=host a.example/b:1 python t.py -b c/d:2\n", "a.example/b:1"),
        ("+ sudo podman run --init -e A=b/c:1 a.example/b:2 python t.py\n", "a.example/b:2"),
        # the registry's name of an image tells more than the release that it was built from
        ("NVIDIA Release 24.05 (build 9)\npyxis: importing docker image: a.example/b:1\n", "a.example/b:1"),
    ],
)
def test_images(text: str, image: str) -> None:
    assert labels(text)["image"] == image


@pytest.mark.parametrize(
    "text",
    [
        f"{DESCRIBED}  proxy:\n    Container ID:  containerd://bbb\n    Image:         istio/proxyv2:1.22\n",  # which?
        "    Image:  (3, 224, 224)\n",
        "Container ID: x\n    Image:   resized\n",
        "APPTAINER_BIND=/scratch/x.sif\nLD_LIBRARY_PATH=/x\n",
        "Status: Downloaded newer image for you\n",
        "usage: docker run a.example/b:1\n",
        "+ docker build -t a.example/b:1 .\n+ singularity --version\n",
        "+ docker run a.example/b:1 x\n+ docker run a.example/c:1 y\n",  # which?
    ],
)
def test_no_images(text: str) -> None:
    assert "image" not in labels(text)


@pytest.mark.parametrize(
    "text",
    [
        "+ python train.py --lr 0.003 --batch-size=64 --amp\n",
        "++ srun torchrun --nproc_per_node=8 train.py --lr 0.003 --batch-size '64' --amp\n",
        "+ python -u train.py lr=0.003 +batch_size=64 --amp\n",
        "[2026-11-20 10:00:00,001] [INFO] [runner.py:571:main] cmd = /usr/bin/python3 -u -m deepspeed.launcher.launch "
        "--world_info=e30= train.py --lr 0.003 --batch_size 64 --amp\n",
        "Namespace(lr=0.003, batch_size=64, amp='true')\n",
    ],
)
def test_arguments(text: str) -> None:
    assert labels(text) == {"hparam.amp": "true", "hparam.batch_size": "64", "hparam.lr": "0.003"}


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --lr 0.003\n",  # a hint to the user, and not what is run
        "+ echo train.py\n",
        "+ python prep.py --lr 1\n+ python train.py --lr 2\n",  # of which?
        "+ python train.py --api_key hunter2\n",
        "loss + train.py --lr 0.003\n",
    ],
)
def test_no_arguments(text: str) -> None:
    assert labels(text) == {}


def of_file(tmp_path: Path, name: str, text: str) -> dict[str, str]:
    folder = tmp_path / "jobs" / "a"
    folder.mkdir(parents=True)
    (folder / "train.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    (folder / name).write_text(text)
    (found,) = triage([str(tmp_path / "jobs")], Options(store=tmp_path / "s", engine=here, limits=Limits())).results
    return dict(found.labels)


@pytest.mark.parametrize("name", ["config.json", "args.json", "flags.json", "hyperparameters.json", "opt.json"])
def test_settings_on_one_line(tmp_path: Path, name: str) -> None:
    """Also those that have the name of a metric."""
    assert of_file(tmp_path, name, '{"lr": 0.01, "entropy": 0.1, "reward": 1.0}')["hparam.lr"] == "0.01"


def test_settings_in_a_text_file(tmp_path: Path) -> None:
    assert of_file(tmp_path, "commandline_args.txt", '{"lr": 0.01, "seed": 3}')["hparam.lr"] == "0.01"


@pytest.mark.parametrize("name", ["optics.json", "metrics.json", "adopted.json"])
def test_other_files_are_no_settings(tmp_path: Path, name: str) -> None:
    assert of_file(tmp_path, name, '{"lr": 0.01, "width": 3}') == {}


def test_records_are_no_settings(tmp_path: Path) -> None:
    lines = "".join(f'{{"step": {n}, "loss": {3 - n}, "lr": 0.1}}\n' for n in (1, 2))
    assert of_file(tmp_path, "config_metrics.json", lines) == {}
