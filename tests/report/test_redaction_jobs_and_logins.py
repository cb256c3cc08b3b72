"""Who logs in, what services of clouds and schedulers call a job, and where its data lie."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor

NUMBER = "477774699751238640"
GOES = [
    ("created_by: zquill", "created_by: user-1"),
    ("Logged in as ZoraQ91", "Logged in as user-1"),
    ("Logged in to W&B as zquill88", "Logged in to W&B as user-1"),
    ("su[4411]: (to root) zquill_d on pts/4", "su[4411]: (to root) user-1 on pts/4"),
    ("FAILED SU (to zadmin) zquill on pts/4", "FAILED SU (to user-1) user-2 on pts/4"),
    ("session opened for user root(uid=0) by zquill(uid=1001)", "session opened for user root(uid=0) by user-1(uid=1001)"),
    ("loading /dbfs/mnt/vega-gold/x", "loading /dbfs/mnt/bucket-1/x"),
    ("dbfs:/mnt/vega-gold", "dbfs:/mnt/bucket-1"),
    ("Evicted pod team-vega/tts-train-q", "Evicted pod namespace-1/host-1"),
    ('"Killing container" pod="team-vega/tts-train-q"', '"Killing container" pod="namespace-1/host-1"'),
    ("/mnt/batch/tasks/shared/LS_root/jobs/vega-mlw/train.npy", "/mnt/batch/tasks/shared/LS_root/jobs/project-1/train.npy"),
    ("/LS_root/jobs/vega-mlw/azureml/goofy_pasta_8k2v/wd/x", "/LS_root/jobs/project-1/azureml/run-1/wd/x"),
    ("Attempting to start run: goofy_pasta_8k2v", "Attempting to start run: run-1"),
    (f"MLFLOW_EXPERIMENT_ID={NUMBER}", "MLFLOW_EXPERIMENT_ID=project-1"),
    (f"'experiment_id': '{NUMBER}'", "'experiment_id': 'project-1'"),
    ("Job Name <vega_pretrain>, User <zquill>", "Job Name <run-1>, User <user-1>"),
    ("Job <vega_pretrain> was submitted from host <zlogin4> by user <zq>",
        "Job <run-1> was submitted from host <host-1> by user <user-1>"),
    ("Subject: Job 4411: <vega_pretrain> in cluster <zcl> Done", "Subject: Job 4411: <run-1> in cluster <host-1> Done"),
]  # fmt: skip
STAYS = [
    "created_by: pytorch, created_by: trainer",
    "you are logged in as an administrator",
    "logged in as root",
    "su: (to root) root on pts/4",
    "/dbfs/mnt/data/x and /dbfs/tmp/x",
    "pods and/or nodes",
    "pod spec/containers",
    "/LS_root/jobs",
    "experiment_id=3 MLFLOW_EXPERIMENT_ID=0",
    "Attempting to start run: a new one",
    "Job <4411> was submitted from host",
    "Job Name <python train.py>",
]


@pytest.mark.parametrize(("text", "shown"), GOES)
def test_it_goes(text: str, shown: str) -> None:
    assert Redactor().redact(text) == shown
    assert Redactor().redact(shown) == shown


@pytest.mark.parametrize("text", STAYS)
def test_it_stays(text: str) -> None:
    assert Redactor().redact(text) == text
