"""Whether a name that ends in `pass` names a password (`smtp_pass`) or a pass of compute (`forward_pass`)."""

from __future__ import annotations

import re

from forensics.patterns import lazy

# Services, accounts and what else has a password: with one of these, any value is a secret.
_ACCOUNTS = frozenset(
    "db database sql mysql mariadb pg pgsql psql postgres postgresql mongo mongodb redis clickhouse influx influxdb mq "
    "rabbit rabbitmq amqp kafka elastic es ldap ad smtp imap pop mail email ftp sftp ssh vpn http https proxy web "
    "registry docker artifactory nexus pypi git github gitlab bitbucket user usr login root admin sudo svc service "
    "account auth basic api cert key keystore truststore ssl tls pem pfx jks vault aws azure gcp wandb mlflow comet "
    "neptune slurm smb cifs minio s3 grafana jenkins airflow slack".split()
)
# Passes over data, over a graph, of a filter, of a test.
_COMPUTE = frozenset(
    "forward backward fwd bwd fw bw first second third fourth last next prev previous current cur n num number count "
    "no one two three single dual multi per each every this that the a another any all both full half partial final "
    "initial init main extra low high band train training eval evaluation val valid validation test tests check skip "
    "inference render shadow z optim optimizer optimization compile compiler fusion fuse graph fx grad pre post joint "
    "custom inductor dynamo lowering opt recompute replay prefill decode encode encoder decoder warmup dry fast slow "
    "quick data dataset epoch scan reduce sort merge hlo xla mlir llvm sharding partition pattern matcher is did has "
    "can will should must allow on before after in out up down max min total sum avg mean time iter batch micro model "
    "module layer attention quality gate ci x by".split()
)
_NUMBER = lazy(
    r"[+-]?\.?\d[\d.,_:/]*(?:e[+-]?\d+)?(?:ns|us|ms|s|secs?|min|h|%|x|it|flops|[kmgt](?:i?b|flops)?|b)?(?:/[a-z]+)?\Z",
    re.ASCII | re.I,
)
_STATE = lazy(
    r"(?:ok|done|failed|fail|failure|pass|passed|skip|skipped|start|started|starting|begin|beginning|end|ended|enabled"
    r"|disabled|running|complete|completed|finished|on|off|nan|inf|auto|default|always|never|all|any|test)\W*\Z",
    re.ASCII | re.I,
)
_NAME_BEFORE = lazy(r"[A-Za-z0-9_.-]*\Z", re.ASCII)
_USER_BEFORE = lazy(r"(?:user\w*|login|account)\W{1,4}[^\s,;]{1,64}[\s,;]{1,3}[\"']?\Z", re.ASCII | re.I)
_WORD_BEFORE = lazy(r"[A-Za-z0-9)\]%]:?[ \t]+\Z", re.ASCII)


def is_password(before: str, key: str, sep: str, value: str, *, quoted: bool) -> bool:
    """Whether `value` is a password, as `before` + `key` + `sep` call it. key: `pass` in any spelling; before: the
    text in front of it, of which some two dozen characters are enough.
    """
    name = _NAME_BEFORE.search(before)
    prefix = name[0].strip("-") if name is not None else ""
    words = {w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", prefix)}
    if words & _ACCOUNTS:
        return True
    if words & _COMPUTE or _NUMBER.match(value) or _STATE.match(value):
        return False
    if key == "PASS" and ":" in sep and not quoted:  # `PASS: test_x` is what test runners print
        return False
    if prefix or not _WORD_BEFORE.search(before) or _USER_BEFORE.search(before):
        return True
    # In prose ("Backward pass: fused") only what looks like no word.
    return quoted or "=" in sep or (len(value) >= 6 and bool(re.search(r"\d", value) and re.search(r"[A-Za-z]", value)))
