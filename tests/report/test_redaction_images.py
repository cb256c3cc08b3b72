"""Container images of registries, and pods that jobs of Kubernetes call after themselves."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor

ECR = ".dkr.ecr.us-east-1.amazonaws.com"
IMAGES = [
    (f"123456789012{ECR}/zeta/repo:tag", f"account-1{ECR}/account-2/repo-1:tag"),
    (f"123456789012{ECR}/vega-train:v1.2", f"account-1{ECR}/repo-1:v1.2"),
    (f'Failed to pull image "123456789012{ECR}/zeta/llm/fit:abc": rpc', f'Failed to pull image "account-1{ECR}/account-2/'
        'repo-1/repo-2:abc": rpc'),
    (f"docker pull 123456789012{ECR}/zeta/fit@sha256:0123", f"docker pull account-1{ECR}/account-2/repo-1@sha256:0123"),
    ("repository with name 'zeta/fit' does not exist in the registry with id '123456789012'",
        "repository with name 'account-1/repo-1' does not exist in the registry with id 'account-2'"),
    ("gcr.io/zeta-ml-prod/vega/fit:v3", "gcr.io/project-1/repo-1/repo-2:v3"),
    ("us-central1-docker.pkg.dev/zeta-ml-prod/vega-repo/fit:v3", "us-central1-docker.pkg.dev/project-1/repo-1/repo-2:v3"),
    ("us.gcr.io/zeta.com/zeta-ml/fit@sha256:00", "us.gcr.io/host-1/project-1/repo-1@sha256:00"),
    ("zetareg.azurecr.io/vega/fit:v3", "host-1/account-1/repo-1:v3"),
    ("registry.zeta.io:5000/vega/fit:v1", "host-1:5000/account-1/repo-1:v1"),
    ("nvcr.io/zetaorg/zetateam/fit:1", "nvcr.io/account-1/repo-1/repo-2:1"),
    ("    Image:   zeta/vega:v1", "    Image:   account-1/repo-1:v1"),
]  # fmt: skip
PODS = [
    ("[lora-vega-7b-worker-0] step 3", "[job-1-worker-0] step 3"),
    ("Pod lora-vega-worker-1 was evicted", "Pod job-1-worker-1 was evicted"),
    ("pod vega-worker-1 failed", "pod job-1-worker-1 failed"),
    ("pods vega-a-worker-1, vega-a-master-0, vega-b-worker-1", "pods job-1-worker-1, job-1-master-0, job-2-worker-1"),
    ("lora-vega-launcher-x7x7x", "host-1"),
    ("lora-vega-node-0-1-x7x7x", "host-1"),
]
STAYS = [
    f"763104351884{ECR}/pytorch-training:2.3.0-gpu-py311",
    "nvcr.io/nvidia/pytorch:24.05-py3",
    "docker.io/library/python:3.11",
    "image: data/cat.png",
    "worker-0 data-worker-3 ray-worker-1 DataLoader-worker-2 data-loader-worker-3",
    "pods 3-4 of 8; the pod is 2-3 steps behind",
    "step-100-200-24567",
]


@pytest.mark.parametrize(("text", "expected"), IMAGES + PODS)
def test_it_goes(text: str, expected: str) -> None:
    shown = Redactor().redact(text)
    assert shown == expected
    assert Redactor().redact(shown) == shown


@pytest.mark.parametrize("text", STAYS)
def test_it_stays(text: str) -> None:
    assert Redactor().redact(text) == text
