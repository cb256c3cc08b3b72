"""Whether `*_key` names a key that opens something (`wandb_key`) or one that finds something (`sort_key`)."""

from __future__ import annotations

import re

from forensics.patterns import lazy

# What keys open: with one of these, any value is a secret.
_SERVICES = frozenset(
    "wandb hf huggingface hub ssh api openai anthropic gemini cohere groq mistral together fireworks replicate comet "
    "neptune clearml mlflow swanlab aim dagshub weave langsmith kaggle aws azure gcp gcs minio r2 oss cos runpod modal "
    "lambda ngc nvidia vllm server app auth admin user client service login account master gpg pgp ssl tls pem rsa "
    "sentry datadog dd slack discord telegram pagerduty opsgenie sendgrid twilio stripe".split()
)
# What keys find: a name of a column, of an entry of a dictionary, of a cached thing.
_DATA = frozenset(
    "primary foreign sort index image images img text input inputs output outputs label labels target targets cache "
    "dict json bucket group data feature features missing unexpected public pub state pad eos bos unk sep cls mask "
    "special max min num next stop force use no loss metric metrics monitor score reward prompt response message "
    "messages column col row field sample batch video audio pixel param params module layer query past head rng prng "
    "random seed partition object blob map hash lookup registry config cfg env test train eval val valid best ckpt "
    "checkpoint model optimizer optim scheduler host parent child node job run task step time order by name first last "
    "prev previous current old new the this a an each every other log logger tag any key keys store weight weights "
    "tensor kernel graph compile trace event rank world dataset split id item attr attention cross full dispatch "
    "element class type mode user_defined question answer chosen rejected context caption".split()
)
_PART = lazy(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*|\d+", re.ASCII)
_WORDS = lazy(r"(?:[A-Za-z]{3,}\d{0,3}(?:[ _./:-]+|\Z)|\d{1,3}(?:[ _./:-]+|\Z))+\Z", re.ASCII)


def is_key(prefix: str, value: str) -> bool:
    """Whether `value` is a secret by a name that ends in `key`; prefix: the name before `key`.

    Of a name that tells nothing (`routing_key`), what looks like no words in a row: eight characters and more, letters
    and digits mixed.
    """
    parts = _PART.findall(prefix)
    word = parts[-1].lower() if parts else ""
    if word in _SERVICES:
        return not value.isdigit()
    if not word or word in _DATA or len(value) < 8 or _WORDS.match(value):
        return False
    return value.isalnum() and not value.isalpha() and not value.isdigit() and not value.startswith("0x")
