"""A name and its value in two fields of an entry, on one line or several."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.model import Kind, Source
from forensics.report.redaction import Redactor, told_by

HELD = {
    "WANDB_ENTITY": "zeta-lab",
    "MASTER_ADDR": "gpu-a17",
    "POD_NAMESPACE": "team-vega",
    "S3_BUCKET": "zeta-train-eu",
    "SLURM_JOB_ACCOUNT": "quasarlab",
    "USER": "jdoerr",
    "NODE_NAME": "vega-a17",
    "HF_USER": "mlopez",
    "mlflow.user": "afischer",
    "DB_PASSWORD": "hunter2",
}
FORMS = {
    "Kubernetes": "        - name: {n}\n          value: {v}\n",
    "quoted": "        - 'name': '{n}'\n          'value': \"{v}\"\n",
    "value first": "  - value: {v}\n    name: {n}\n",
    "stamped": "2026-01-01T00:00:00Z INFO   - name: {n}\n2026-01-01T00:00:00Z INFO     value: {v}\n",
    "of klog": "I0101 00:00:00.000000   17 env.go:12] - name: {n}\nI0101 00:00:00.000001   17 env.go:12]   value: {v}\n",
    "folded": "  - name: {n}\n    value: >-\n      {v}\n",
    "JSON": '    {{\n        "name": "{n}",\n        "value": "{v}"\n    }},\n',
    "JSON, value first": '    {{\n        "value": "{v}",\n        "name": "{n}"\n    }},\n',
    "JSON, on one line, value first": '{{"value": "{v}", "name": "{n}"}}, ',
    "a field between": '  {{\n    "name": "{n}",\n    "type": "plain",\n    "value": "{v}"\n  }},\n',
    "JSON within a string": r"{{\n    \"name\": \"{n}\",\n    \"value\": \"{v}\"\n}},\n",
    "tags": '  {{\n    "Key": "{n}",\n    "Value": "{v}"\n  }},\n',
    "Go": "EnvVar{{Name:{n},Value:{v},ValueFrom:nil,}} ",
    "Terraform": 'env {{\n  name  = "{n}"\n  value = "{v}"\n}}\n',
    "Hadoop": "  <property>\n    <name>{n}</name>\n    <value>{v}</value>\n  </property>\n",
    "W&B": "{n}:\n    desc: null\n    value: {v}\n",
    "W&B, JSON": '    "{n}": {{\n        "value": "{v}"\n    }},\n',
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", HELD)
def test_a_value_whose_name_stands_in_another_field(form: str, name: str) -> None:
    text = FORMS[form].format(n=name, v=HELD[name])
    assert HELD[name] not in Redactor().redact(text)
    assert HELD[name] not in "\n".join(Redactor().lines(text.split("\n")))


@pytest.mark.parametrize("name", ["NODE_NAME", "WANDB_ENTITY", "USER"])
def test_a_value_alone_below_the_name(name: str) -> None:
    lines = [f"  {name}:", f"    {HELD[name]}", "  LR: 1"]
    shown = Redactor().lines(lines)
    assert HELD[name] not in shown[1]
    assert shown[0::2] == tuple(lines[0::2])


def test_the_same_name_gets_the_same_stand_in_on_other_lines() -> None:
    lines = [
        "vega-a17 in team-vega",
        "- name: NODE_NAME",
        "  value: vega-a17",
        "- name: POD_NAMESPACE",
        "  value: team-vega",
    ]
    redactor = Redactor()
    redactor.lines(lines)
    assert redactor.lines(lines) == (
        "host-1 in namespace-1", "- name: NODE_NAME", "  value: host-1", "- name: POD_NAMESPACE", "  value: namespace-1",
    )  # fmt: skip


STAYS = [
    "- name: LR\n  value: 3e-4\n- name: OPTIMIZER\n  value: adamw-fused",
    "- name: NODE_NAME\n  valueFrom:\n    fieldRef:\n      fieldPath: spec.nodeName\n- name: EPOCHS\n  value: b-3",
    "- value: b-17\n  name: LAYERS\n- name: NODE_NAME\n  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}",
    "- name: NODE_NAME\n  value: $(HOST)\n- name: HOSTNAME\n  value: unknown",
    '{"name": "loss", "value": "zeta-lab"}, {"name": "NODE_NAME", "valueFrom": null}',
    "metric key=nodes value=b-17",
    "query: a key: hosts value: b-17",
    "NODE_NAME:\n  the name of the node\nHOSTNAME:\n  port: 80",
]


@pytest.mark.parametrize("text", STAYS)
def test_what_only_looks_so_stays(text: str) -> None:
    assert Redactor().redact(text) == text
    assert "\n".join(Redactor().lines(text.split("\n"))) == text


def test_pairs_of_a_file_are_learnt_from(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("env:\n- name: NODE_NAME\n  value: vega-a17\n- name: LR\n  value: b-17\n")
    learnt = told_by([Source("pod.yaml", file, Kind.CONFIG, file.stat().st_size)])
    assert '{"name": "NODE_NAME", "value": "vega-a17"}' in learnt
    assert not any("LR" in line for line in learnt)


def test_a_host_of_a_pair_goes_wherever_it_stands_though_its_name_is_a_word() -> None:
    redactor = Redactor()
    redactor.learn(["- name: HOSTNAME\n  value: kestrel\n- name: NODE_NAME\n  value: adamw"])
    assert redactor.redact("cannot reach kestrel; adamw") == "cannot reach host-1; adamw"


def test_a_pod_as_kubectl_describes_it() -> None:
    lines = [
        "Name:             lora-vega-7b-worker-0",
        "Namespace:        team-vega",
        "Service Account:  vega-runner",
        "Node:             gpu-a17/10.0.0.5",
        "Labels:           training.kubeflow.org/job-name=lora-vega-7b",
        "Controlled By:    PyTorchJob/lora-vega-7b",
        "    Node-Selectors:  cloud.google.com/gke-nodepool=x",
        "      WANDB_ENTITY:   zeta-lab",
        "      NODE_NAME:       (v1:spec.nodeName)",
        "  serviceAccountName: default",
    ]
    assert Redactor().lines(lines) == (
        "Name:             job-1-worker-0",
        "Namespace:        namespace-1",
        "Service Account:  user-1",
        "Node:             host-1/ip-1",
        "Labels:           training.kubeflow.org/job-name=job-1",
        "Controlled By:    PyTorchJob/job-1",
        "    Node-Selectors:  cloud.google.com/gke-nodepool=x",
        "      WANDB_ENTITY:   account-1",
        "      NODE_NAME:       (v1:spec.nodeName)",
        "  serviceAccountName: default",
    )
