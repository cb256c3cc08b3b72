"""Files of transformers, PEFT, tokenizers and diffusers: what model, tokenizer, adapter and schedule are said to be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forensics.parsers.run_files.base import Family, Reading, base_name, item, reading, under
from forensics.parsers.run_files.documents import Document, Item, read_json
from forensics.patterns import lazy

# Of the tokenizer's hundreds of values: what bears on padding, length and the size of the vocabulary.
_TOKENIZER = lazy(
    r"(?:padding_side|truncation_side|model_max_length|tokenizer_class|add_(?:bos|eos)_token"
    r"|(?:pad|eos|bos|unk)_token(?:\.content)?)$"
)
_TRAINER = frozenset(
    "global_step max_steps num_train_epochs epoch best_metric best_global_step best_model_checkpoint eval_steps"
    " logging_steps save_steps train_batch_size num_input_tokens_seen total_flos".split()
)


def _model(text: str, path: str) -> Reading:
    return reading("model", read_json(text))


def _generation(text: str, path: str) -> Reading:
    return reading("generation", read_json(text))


def _adapter(text: str, path: str) -> Reading:
    document = read_json(text)
    lists = ("modules_to_save", "target_modules", "trainable_token_indices")
    return Reading((*reading("adapter", document).items, *_joined("adapter", document, lists)), document.problem)


def _noise_schedule(text: str, path: str) -> Reading:
    return reading("noise_schedule", read_json(text))


def _joined(prefix: str, document: Document, names: tuple[str, ...]) -> Iterator[Item]:
    """Lists of names as one value, "a, b"; an empty one has no values of its own."""
    for name in names:
        inner = list(document.below(name))
        if inner:
            yield item(f"{prefix}.{name}", ", ".join(i.value for i in inner[:32]), inner[0].line)


def _tokenizer(text: str, path: str) -> Reading:
    document = read_json(text)
    kept = [i for i in document.items if _TOKENIZER.fullmatch(i.path)]
    ids = [(int(m[1]), i.line) for i in document.items if (m := re.match(r"added_tokens_decoder\.(\d{1,9})\.", i.path))]
    largest = [item("tokenizer.added_tokens.max_id", *max(ids, key=lambda pair: pair[0]))] if ids else []
    return Reading((*_named("tokenizer", kept), *largest), document.problem)


def _named(prefix: str, items: list[Item]) -> Iterator[Item]:
    for i in items:
        yield Item(f"{prefix}.{i.path.removesuffix('.content')}", i.value, i.line)


def _added(text: str, path: str) -> Reading:
    document = read_json(text)
    ids = [(int(i.value), i.line) for i in document.items if re.fullmatch(r"\d{1,9}", i.value)]
    largest = (item("tokenizer.added_tokens.max_id", *max(ids, key=lambda pair: pair[0])),) if ids else ()
    return Reading(largest, document.problem)


def _special(text: str, path: str) -> Reading:
    document = read_json(text)
    kept = [i for i in document.items if _TOKENIZER.fullmatch(i.path)]
    return Reading(tuple(_named("tokenizer", kept)), document.problem)


def _trainer(text: str, path: str) -> Reading:
    # The log history, which stands before half of these, is the metrics' and may have a million values.
    head = _without_history(text)
    document = read_json(head)
    kept = [i for i in document.items if i.path in _TRAINER]
    return Reading(tuple(under("trainer", kept)), document.problem)


def _without_history(text: str) -> str:
    """The text with the entries of log_history blanked, its newlines kept."""
    m = re.search(r'"log_history"\s*:\s*\[', text)
    if m is None:
        return text
    # Keys are sorted, so that one of these follows; entries seldom hold lists of their own.
    after = re.compile(r'\]\s*,\s*"(?:logging_steps|max_steps)"').search(text, m.end())
    end = after.start() if after else text.find("]", m.end())
    if end < 0:
        return text[: m.end()]
    return text[: m.end()] + "\n" * text.count("\n", m.end(), end) + text[end:]


def _is_model(path: str, head: str) -> bool:
    """A model's config.json. Other programs have files of that name; transformers and diffusers sign theirs."""
    signs = ('"model_type"', '"architectures"', '"transformers_version"', '"_class_name"', '"hidden_size"')
    return (
        base_name(path) == "config.json"
        and head.lstrip("\ufeff \r\n\t").startswith("{")
        and any(sign in head for sign in signs)
    )


def _named_file(name: str, path: str, head: str) -> bool:
    return base_name(path) == name and head.lstrip("\ufeff \r\n\t").startswith("{")


FAMILIES = (
    Family("transformers model configuration", _is_model, _model),
    Family("generation configuration", lambda p, h: _named_file("generation_config.json", p, h), _generation),
    Family("tokenizer configuration", lambda p, h: _named_file("tokenizer_config.json", p, h), _tokenizer),
    Family("added tokens", lambda p, h: _named_file("added_tokens.json", p, h), _added),
    Family("special tokens", lambda p, h: _named_file("special_tokens_map.json", p, h), _special),
    Family("noise schedule of diffusers", lambda p, h: _named_file("scheduler_config.json", p, h), _noise_schedule),
    Family("PEFT adapter configuration", lambda p, h: _named_file("adapter_config.json", p, h), _adapter),
)
TRAINER_STATE = Family("trainer state", lambda p, h: _named_file("trainer_state.json", p, h), _trainer)
