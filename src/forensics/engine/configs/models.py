"""Checks of model, tokenizer and adapter files against each other."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.engine.configs.view import (
    CONTEXT,
    ROOT,
    SUPPORT,
    Sign,
    View,
    is_set,
    is_true,
    number,
    present,
    whole,
)
from forensics.files import buffered
from forensics.model import Fact

_EMBEDDINGS = ("embed", "wte", "lm_head", "word_embeddings")
_EMBEDDED = (b"embed", b"wte", b"lm_head")
_ADAPTER_HEADER = 4 << 20  # bytes of a safetensors header that are searched
_SAFE_LINEAR_FACTOR = 4  # our own limit for a hint: arXiv 2306.15595 shows up to 16 with fine-tuning
# transformers, modeling_rope_utils.ROPE_INIT_FUNCTIONS, and names that older versions had.
_ROPE_TYPES = frozenset("default linear dynamic yarn longrope su llama3 mrope proportional ntk null none".split())
# Attention implementations of transformers that do not see where a packed document ends.
_DENSE = ("eager", "sdpa")


def _folder(file: str) -> str:
    return file.rpartition("/")[0]


def _new_tokens(view: View, file: str) -> tuple[int, Fact, Fact] | None:
    """(ids beyond the model's embedding, the largest id's fact, the vocabulary's) for the tokenizer in a folder.

    The model's own configuration stands in the same folder; where none does, one that every other file agrees on.
    """
    largest = next((f for f in view.all("tokenizer.added_tokens.max_id") if _folder(f.source) == _folder(file)), None)
    here = [f for name in ("model.vocab_size", "model.text_config.vocab_size") for f in view.all(name)]
    beside = [f for f in here if _folder(f.source) == _folder(file)]
    vocabulary = beside[0] if beside else view.value("model.vocab_size", "model.text_config.vocab_size")
    last, size = whole(largest), whole(vocabulary)
    if largest is None or vocabulary is None or last is None or size is None or last < size:
        return None
    return last + 1 - size, largest, vocabulary


def tokens_beyond_embedding(view: View) -> Iterator[Sign]:
    """A tokenizer's added tokens have ids for which the model beside it has no embedding."""
    for file in view.files("tokenizer.added_tokens.max_id"):
        if not any(_folder(f.source) == _folder(file) for f in view.all("model.vocab_size")):
            continue
        if found := _new_tokens(view, file):
            count, largest, vocabulary = found
            text = f"the tokenizer's largest id is {largest.value}, and the model has {vocabulary.value} embeddings"
            yield Sign((largest, vocabulary), f"{text} ({count} too few)", CONTEXT)


def adapter_without_embeddings(view: View) -> Iterator[Sign]:
    """New tokens were added for training, and the adapter that was saved does not hold their embeddings."""
    for file in view.files("adapter.peft_type"):
        kept = view.within(file, "adapter.modules_to_save")
        if is_set(view.within(file, "adapter.trainable_token_indices")):
            continue
        if is_set(kept) and kept is not None and any(name in kept.value for name in _EMBEDDINGS):
            continue
        targets = view.within(file, "adapter.target_modules")
        if targets is not None and any(name in targets.value for name in _EMBEDDINGS):
            continue
        found = _new_tokens(view, file)
        if found is None:
            continue
        count, largest, vocabulary = found
        held = _holds_embeddings(view, _folder(file))
        if held:
            continue
        text = (
            f"{count} token(s) were added beyond the {vocabulary.value} of the model, and the adapter saves no "
            "embeddings: modules_to_save does not name them"
        )
        # A single new token is most often for padding, whose embedding nothing reads.
        alone = ROOT if held is False and count > 1 else CONTEXT
        yield Sign(present(view.within(file, "adapter.peft_type"), kept, largest, vocabulary), text, alone)


def _holds_embeddings(view: View, folder: str) -> bool | None:
    """Whether the adapter's weights hold embeddings, from the header of its safetensors file; None if not known."""
    source = view.sources.get(f"{folder}/adapter_model.safetensors".lstrip("/"))
    if source is None:
        return None
    try:
        with buffered(source.file) as raw:
            length = int.from_bytes(raw.read(8), "little")
            header = raw.read(min(length, _ADAPTER_HEADER))
    except OSError:
        return None
    if len(header) < length:
        return None
    return any(name in header for name in _EMBEDDED)


def rope_settings(view: View) -> Iterator[Sign]:
    """RoPE scaling with a factor that shrinks the context, an unknown type, or linear scaling beyond its reach."""
    for file in dict.fromkeys(f.source for f in view.facts if f.name.startswith("model.rope_")):
        for name in ("model.rope_scaling", "model.rope_parameters"):
            factor = view.within(file, f"{name}.factor")
            kind = view.within(file, f"{name}.rope_type") or view.within(file, f"{name}.type")
            value = number(factor)
            if factor is not None and value is not None and value < 1:
                yield Sign(present(factor, kind), f"the factor {factor.value} of the RoPE scaling is below 1", ROOT)
            elif kind is not None and kind.value == "linear" and value is not None and value > _SAFE_LINEAR_FACTOR:
                yield Sign(present(factor, kind), f"linear RoPE scaling by {value:g}, which takes fine-tuning")
            if kind is not None and kind.value.lower() not in _ROPE_TYPES:
                yield Sign(
                    (kind,),
                    f"the RoPE type {kind.value!r} is not one that transformers is known to have: misspelt, or of a "
                    "model that brings its own",
                )


def longer_than_positions(view: View) -> Iterator[Sign]:
    """Training sequences are longer than the positions that the model was made for, without RoPE scaling."""
    length = view.argument("max_seq_length", "max_seq_len", "cutoff_len", "model_max_length")
    positions = view.value("model.max_position_embeddings", "model.n_positions")
    scaling = view.value("model.rope_scaling.factor", "model.rope_parameters.factor")
    a, b = whole(length), whole(positions)
    # Tokenizers without a limit say 1e30.
    if length is not None and positions is not None and a and b and b < a < 1e9 and scaling is None:
        text = f"sequences of up to {a} tokens, and the model has {b} positions and no RoPE scaling"
        yield Sign((length, positions), text, CONTEXT)


def _generates(view: View) -> tuple[Fact, str] | None:
    """What says that the run generates, and what right padding is worth there by itself.

    Trainers of reinforcement learning pad on the left whatever the tokenizer's files say; evaluation by generation
    (predict_with_generate) takes the tokenizer as it is.
    """
    kind = view.value("training_args.class")
    if kind is not None and any(name in kind.value for name in ("GRPO", "PPO", "RLOO", "OnlineDPO", "XPO", "NashMD")):
        return kind, SUPPORT
    evaluates = view.argument("predict_with_generate")
    return (evaluates, CONTEXT) if evaluates is not None and is_true(evaluates) else None


def padding_side(view: View) -> Iterator[Sign]:
    """A decoder-only model's tokenizer pads on the right in a run that generates."""
    side, generates = view.value("tokenizer.padding_side"), _generates(view)
    architecture = view.value("model.architectures.0")
    decoder = architecture is not None and architecture.value.endswith(("ForCausalLM", "LMHeadModel"))
    if side is not None and side.value == "right" and decoder and generates is not None:
        fact, alone = generates
        yield Sign(present(side, architecture, fact), "right padding in a run that generates", alone)


def pad_token_unset(view: View) -> Iterator[Sign]:
    """The tokenizer has no padding token, and batches hold more than one sequence."""
    for file in view.files("tokenizer.tokenizer_class"):
        pad = view.within(file, "tokenizer.pad_token")
        batch = view.argument("per_device_train_batch_size", "train_batch_size", "micro_batch_size", "batch_size")
        if not is_set(pad) and (whole(batch) or 0) > 1:
            facts = present(view.within(file, "tokenizer.tokenizer_class"), pad, batch)
            yield Sign(facts, "the tokenizer's files name no padding token", SUPPORT)


def packing_attention(view: View) -> Iterator[Sign]:
    """Sequences are packed, and the attention implementation does not keep them apart."""
    packing = next((f for n in ("packing", "padding_free") if is_true(f := view.argument(n))), None)
    attention = view.argument("attn_implementation") or view.value(
        "model._attn_implementation", "model.attn_implementation"
    )
    if packing is not None and attention is not None and attention.value in _DENSE:
        text = f"packed sequences with {attention.value} attention, which does not see where a document ends"
        yield Sign((packing, attention), text, CONTEXT)


def preference_settings(view: View) -> Iterator[Sign]:
    """DPO with a beta or a learning rate outside of what keeps the policy near its reference (catalogue L9)."""
    kind = view.value("training_args.class")
    if kind is None or "DPO" not in kind.value:
        return
    beta, rate = view.argument("beta"), view.argument("learning_rate")
    if (b := number(beta)) is not None and 0 < b < 0.02:
        yield Sign(present(beta, kind), f"beta is {b:g}: hardly anything holds the policy near its reference", SUPPORT)
    if (r := number(rate)) is not None and r > 5e-6 and not view.files("adapter.peft_type"):
        yield Sign(present(rate, kind), f"a learning rate of {r:g} for DPO of all weights", SUPPORT)
