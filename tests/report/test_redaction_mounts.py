"""Buckets where they are mounted, and pods where commands and fields name them."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor

GOES = [
    ("gcsfuse --implicit-dirs zbucket /mnt/data", "gcsfuse --implicit-dirs bucket-1 /mnt/data"),
    ("s3fs z-bucket /mnt -o iam_role=auto", "s3fs bucket-1 /mnt -o iam_role=auto"),
    ("goofys zbucket:prefix /mnt", "goofys bucket-1:prefix /mnt"),
    ("mount-s3 z-bucket /mnt/data", "mount-s3 bucket-1 /mnt/data"),
    ("rclone mount remote:z-bucket /mnt", "rclone mount remote:bucket-1 /mnt"),
    ("zbucket on /mnt/data type fuse.gcsfuse (rw)", "bucket-1 on /mnt/data type fuse.gcsfuse (rw)"),
    ("z-bucket /mnt/data fuse.gcsfuse rw 0 0", "bucket-1 /mnt/data fuse.gcsfuse rw 0 0"),
    ("z-bucket  1.0P  0  1.0P  0% /mnt/data", "bucket-1  1.0P  0  1.0P  0% /mnt/data"),
    ("blobfuse2 mount /mnt --container-name=zcont", "blobfuse2 mount /mnt --container-name=bucket-1"),
    ("Pod name: tveit-train-0", "Pod name: host-1"),
    ('"pod":"tveit-train"', '"pod":"host-1"'),
    ("POD=tveit-train", "POD=host-1"),
    ("kubectl exec -it tveit-train-0 -- bash", "kubectl exec -it host-1 -- bash"),
    ("ClearML task: 0123456789abcdef0123456789abcdef", "ClearML task: run-1"),
]  # fmt: skip
STAYS = [
    "s3fs on /mnt/data type fuse.s3fs (rw)",
    "tmpfs on /dev/shm type tmpfs (rw)",
    "overlay  1.0T  0  1.0T  0% /",
    "/dev/nvme0n1p1  1.0T  0  1.0T  0% /mnt",
    "pod: unknown",
    "kubectl get pods",
    "kubectl logs --help",
]


@pytest.mark.parametrize(("text", "shown"), GOES)
def test_it_goes(text: str, shown: str) -> None:
    assert Redactor().redact(text) == shown


@pytest.mark.parametrize("text", STAYS)
def test_it_stays(text: str) -> None:
    assert Redactor().redact(text) == text
