"""What trackers of experiments say of a run in their own words."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor

ID = "0123456789abcdef" * 2
GOES = [
    ("wandb: Starting a new run with run id p9q8r7s6.", "wandb: Starting a new run with run id run-1."),
    ("`offline`. Starting a new run with run id vega-exp", "`offline`. Starting a new run with run id run-1"),
    ("wandb: Resuming run vivid-sun-12", "wandb: Resuming run run-1"),
    ("Run (p9q8r7s6) is finished. The call to `log`", "Run (run-1) is finished. The call to `log`"),
    ("409: run zeta/lm/p9q8r7s6 was previously created and deleted", "409: run account-1/project-1/run-1 was previously "
        "created and deleted"),
    ("run p9q8r7s6 was previously created and deleted; try", "run run-1 was previously created and deleted; try"),
    (f"View run amusing-vole-12 at: http://mlf7:5000/#/experiments/3/runs/{ID}",
        "View run run-2 at: http://host-1:5000/#/experiments/3/runs/run-1"),
    (f"View run vega pretrain at: http://mlf7:5000/#/experiments/3/runs/{ID}",
        "View run run-2 at: http://host-1:5000/#/experiments/3/runs/run-1"),
    ("View experiment at: https://mlf7/ml/experiments/112233445566778", "View experiment at: https://host-1/ml/experiments"
        "/project-1"),
    (f"RESOURCE_DOES_NOT_EXIST: Run '{ID}' not found", "RESOURCE_DOES_NOT_EXIST: Run 'run-1' not found"),
    (f"Run with id={ID} not found", "Run with id=run-1 not found"),
    ("Experiment with name 'vega-lm' does not exist.", "Experiment with name 'project-1' does not exist."),
    ("Created version '3' of model 'vega-lm'.", "Created version '3' of model 'repo-1'."),
    ("POST /openai/deployments/vega-chat-prod/chat/completions?api-version=2024-06-01 404",
        "POST /openai/deployments/resource-1/chat/completions?api-version=2024-06-01 404"),
    ("/onlineEndpoints/quark-ep/deployments/vega-blue 503", "/onlineEndpoints/resource-2/deployments/resource-1 503"),
    ("azureml-model-deployment: vega-blue", "azureml-model-deployment: resource-1"),
    ("POST /openai/deployments/gpt-4o-vega/chat/completions", "POST /openai/deployments/resource-1/chat/completions"),
    ("https://vega-ai.openai.azure.com/openai/deployments/vega_eval/embeddings",
        "https://host-1/openai/deployments/resource-1/embeddings"),
    ("logged in as: jdoerr. Use `wandb login`; jdoerr", "logged in as: user-1. Use `wandb login`; user-1"),
]  # fmt: skip
STAYS = [
    "POST /openai/deployments/gpt-4o-mini/chat/completions?api-version=2024-06-01 429",
    "POST /openai/deployments/text-embedding-3-large/embeddings",
    "GET /v1/endpoints/ready 200",
    "POST /openai/deployments/ is no address",
    "Starting a new run with run id 5",
    "wandb: Resuming run from step 300",
    "View run details at the page; View run at: the page",
    "View experiment at: /#/experiments/3",
    "Run (3) of 5 is finished",
    "Registered model parameters: 7",
    "the experiment 'a' was fine",
    "wandb: Run `wandb offline` to turn off syncing.",
]


@pytest.mark.parametrize(("text", "expected"), GOES)
def test_what_names_a_run_goes(text: str, expected: str) -> None:
    redactor = Redactor()
    shown = redactor.again(redactor.redact(text))
    assert shown == expected
    assert redactor.redact(shown) == shown


@pytest.mark.parametrize("text", STAYS)
def test_what_names_none_stays(text: str) -> None:
    assert Redactor().redact(text) == text
