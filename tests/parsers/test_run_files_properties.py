"""Whatever a run file holds, reading it raises nothing and stays within its bounds."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import Kind, Source
from forensics.parsers import run_files
from forensics.parsers.run_files import documents
from forensics.parsers.run_files.pickled import NotReadable, read

NAMES = (
    "config.json generation_config.json tokenizer_config.json added_tokens.json special_tokens_map.json"
    " adapter_config.json trainer_state.json ds_config.json wandb-metadata.json wandb-summary.json config.yaml"
    " .hydra/config.yaml .hydra/hydra.yaml wandb/run-1/files/config.yaml wandb/run-1/files/requirements.txt hparams.yaml"
    " accelerate.yaml train.toml latest latest_checkpointed_iteration.txt debug.log x.log training_args.bin"
).split()
KEYS = (
    "model_type architectures added_tokens_decoder 32000 content peft_type modules_to_save log_history global_step"
    " max_steps zero_optimization train_batch_size fp16 enabled wandb_version value compute_environment distributed_type"
    " rope_scaling factor hydra job name args 0"
).split()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner),
    max_leaves=20,
)
yaml_texts = st.lists(
    st.sampled_from(["a: ", "- ", "&x ", "*x", "[", "]", "{", "}", ": ", "\n", "  ", "!!python/object:os ", "|", '"', "'", "? ", "<<: ", "%", "---\n", "#", "\t", "\0", "é", "wandb_version: 1\n", "k:\n  value: "])
    | st.text(max_size=5),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300) | yaml_texts.map(str.encode) | json_values.map(lambda v: json.dumps(v).encode()))
def test_no_content_raises(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for name in NAMES:
        run_files.looks_like_run_file(data, name.rpartition("/")[2])
        for item in run_files.read_text(text, name).items:
            assert len(item.value) <= documents.VALUE and "\n" not in item.value
    run_files.read_head(text)


@settings(max_examples=40, deadline=None)
@given(json_values)
def test_json_scalars_are_all_found(value: object) -> None:
    def count(v: object) -> int:
        if isinstance(v, dict):
            return sum(map(count, v.values()))
        return sum(map(count, v)) if isinstance(v, list) else 1

    document = documents.read_json(json.dumps(value))
    assert document.problem is None
    assert len(document.items) == count(value)
    assert documents.read_json(json.dumps(value, indent=1)).problem is None


@settings(max_examples=60, deadline=None)
@given(json_values, st.integers(0, 400), st.binary(max_size=4))
def test_pickles_that_are_cut_or_changed(value: object, at: int, put: bytes) -> None:
    data = pickle.dumps(value, protocol=2)
    for changed in (data[: at % (len(data) + 1)], data[:at] + put + data[at + len(put) :]):
        try:
            documents.walk(read(changed))
        except NotReadable:
            continue


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200))
def test_collect_never_raises(data: bytes) -> None:

    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for n, name in enumerate(NAMES):
            file = Path(folder, f"{n}")
            file.write_bytes(data)
            kind = Kind.CHECKPOINT if name.endswith(".bin") else Kind.LOG if name == "x.log" else Kind.CONFIG
            sources.append(Source(name, file, kind, len(data)))

        def fault(error: Exception) -> str:
            raise error

        found = run_files.collect(sources, fault)
        assert len(found.problems) == len(NAMES) - 2
