"""Command lines: what an option or a place of a known program is, where no name tells it (`mysql -pX`, `ssh -l X`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second, telling
from forensics.report.redaction.stand_ins import is_stand_in

_VALUE = r"(?!-)([^\s\"']+)"
_AFTER = r"[ =]?[\"']?"


class _Program(NamedTuple):
    """What the options of programs of one family hold; in each pattern group 2 is the value."""

    names: str
    secrets: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()  # `user:password`; groups 2 and 3


def _option(names: str, value: str = _VALUE) -> str:
    return rf"(\s(?:{names}){_AFTER}){value}"


_PAIR = r"([^\s:\"']{1,64}):([^\s\"']+)"
# By the manual of each program. The first of a family whose name a command line begins with counts.
_PROGRAMS = (
    _Program(r"sshpass", secrets=(r"(\s-p\s*[\"']?)([^\s\"']+)",)),
    _Program(
        r"mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump",
        secrets=(r"(\s-p)(?![\s-])([^\s\"']{3,})",),
        users=(_option("-u"),),
        hosts=(_option("-h|--host"),),
    ),
    _Program(
        r"psql|pg_dump|pg_dumpall|pg_restore|pg_isready|createdb|dropdb|pgbench",
        users=(_option("-U"),),
        hosts=(_option("-h|--host"),),
    ),
    _Program(
        r"(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|helm registry|helm|az acr|oc|apptainer registry"
        r"|singularity registry)\s+(?:login|auth login)",
        secrets=(_option("-p"),),
        users=(_option("-u|--username"),),
    ),
    _Program(r"skopeo|buildah|podman|crane|oras", pairs=(_option("--(?:src-|dest-)?creds", _PAIR),)),
    _Program(
        r"az",
        secrets=(_option("-p|--sas-token|--account-key"),),
        users=(_option("-u"),),
        buckets=(_option("--account-name"),),
    ),
    _Program(r"redis-cli|valkey-cli", secrets=(_option("-a"),), hosts=(_option("-h"),)),
    _Program(
        r"ldap(?:search|add|modify|delete|passwd|whoami|modrdn)", secrets=(_option("-w"),), hosts=(_option("-h"),),
        pairs=(_option("-u|-U", _PAIR),),
    ),
    _Program(
        r"mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport",
        secrets=(_option("-p"),), users=(_option("-u"),), hosts=(_option("-h|--host"),),
        pairs=(_option("-u|--user", _PAIR),),
    ),
    _Program(r"sqlcmd|bcp|isql", secrets=(_option("-P"),), users=(_option("-U"),), hosts=(_option("-S"),)),
    _Program(r"clickhouse-client", users=(_option("-u|--user"),), hosts=(_option("-h|--host"),)),
    _Program(r"ipmitool", secrets=(_option("-P"),), users=(_option("-U"),), hosts=(_option("-H"),)),
    _Program(r"twine\s+upload|svn|cadaver", secrets=(_option("-p"),), users=(_option("-u|--username"),)),
    _Program(
        r"psexec(?:64)?", secrets=(_option("-p"),), users=(_option("-u"),), hosts=(r"(\A\s+\\\\)([\w.-]+)",),
    ),
    _Program(r"plink|pscp|psftp", secrets=(_option("-pw"),), users=(_option("-l"),)),
    _Program(
        r"net\s+use",
        secrets=(r"(\A(?:\s+[A-Za-z*]:?)?\s+\\\\\S+\s+)(?![/*])([^\s\"']+)", r"(\s/user:\S+\s+)(?![/*])([^\s\"']+)"),
    ),
    _Program(r"gh\s+secret\s+set", secrets=(_option("-b|--body"),)),
    _Program(r"(?:ossutil|obsutil)(?:64)?", secrets=(_option("-i|-k|--access-key-id|--access-key-secret"),)),
    _Program(r"coscmd\s+config", secrets=(_option("-a|-s"),), buckets=(_option("-b"),)),
    _Program(
        r"b2\s+(?:authorize[-_]account|account\s+authorize)",
        secrets=(r"(\A\s+)(?!-)([^\s\"']+)", r"(\A\s+[^\s-]\S*\s+)(?!-)([^\s\"']+)"),
    ),
    _Program(r"ngrok\s+(?:config\s+add-authtoken|authtoken)", secrets=(r"(\A\s+[\"']?)(?!-)([^\s\"']+)",)),
    _Program(r"htpasswd", secrets=(r"(\A\s+-\w*b\w*\s+(?:\S+\s+){1,2})([^\s\"']+)",)),
    _Program(r"openssl\s+[a-z0-9]+", secrets=(_option("-k"),)),
    _Program(r"srun|sbatch|salloc", hosts=(_option("-w|-x"),)),
    _Program(r"pdsh|pssh|parallel-ssh", users=(_option("-l"),), hosts=(_option("-w|-H"),)),
    _Program(r"zip|unzip", secrets=(_option("-P"),)),
    _Program(r"7za?", secrets=(r"(\s-p)([^\s\"']{3,})",)),
    _Program(r"snmp(?:walk|get|set|bulkwalk)", secrets=(_option("-c|-A|-X"),)),
    _Program(r"xfreerdp|wfreerdp|mstsc", secrets=(r"(\s/p:)([^\s\"']+)",), users=(r"(\s/u:)([^\s\"']+)",),
             hosts=(r"(\s/v:)([\w.-]+)",)),
    _Program(r"lftp", pairs=(r"(\s-u\s+)([^\s,\"']{1,64}),([^\s\"']+)",)),
    _Program(r"smbclient|rpcclient|mount\.cifs", pairs=(r"(\s-U\s+)([^\s%\"']{1,64})%([^\s\"']+)",)),
    _Program(
        r"curl|wget|http|https|aria2c|xh",
        secrets=(_option("--oauth2-bearer"),),
        pairs=(_option("-u|-U|-a|--user|--proxy-user|--auth", _PAIR),),
    ),
    _Program(r"mc\s+(?:alias\s+set|config\s+host\s+add)", secrets=(
        r"(\A\s+\S+\s+\S+\s+[\"']?)([^\s\"']+)", r"(\A\s+\S+\s+\S+\s+\S+\s+[\"']?)([^\s\"']+)",)),
    _Program(
        r"(?:wandb|comet|neptune|huggingface-cli|hf auth|kaggle|modal|gh auth|cargo|vault|pulumi)\s+login",
        secrets=(r"(\A\s+(?:--relogin\s+)?)((?=[\w.-]*\d)[\w.-]{12,})",),
    ),
    _Program(
        r"gcloud",
        hosts=(r"(\s(?:ssh|scp|instances\s+[a-z-]+|tpu-vm\s+[a-z-]+|tpus\s+(?:create|delete|describe))\s+)"
               r"(?!--)([a-z][a-z0-9-]{1,62})(?![\w:.])",),
    ),
)  # fmt: skip
_BARE = ("mc ", "gcloud", "b2 ", "ngrok ")  # programs that take secrets and hosts without options
_LINE = lazy(
    r"(?<![\w-])(?P<program>"
    + "|".join(f"(?P<p{number}>{program.names})" for number, program in enumerate(_PROGRAMS))
    + r")(?P<rest>(?=[ \t])(?:(?!&&)[^\n|;]){1,2000})",
    re.ASCII,
)
_PATTERNS = tuple(
    tuple(tuple(lazy(pattern, re.ASCII) for pattern in patterns) for patterns in program[1:]) for program in _PROGRAMS
)

_OPENSSL = lazy(r"(\s-pass(?:in|out)?\s+pass:)([^\s\"']+)", re.ASCII)
# What a program reads as a password from its standard input.
_PIPED = lazy(
    r"(\b(?:echo|printf)\s+(?:-n\s+)?[\"']?)(?![$-])([^\s\"'|]+)"
    r"(?=[\"']?\s*\|[^\n|]{0,200}?(?:--password-stdin|\bsudo\s+(?:-\w+\s+)*-S\b|\bpasswd\s+--stdin"
    r"|--passphrase-fd 0|\bcryptsetup\b|--with-token))",
    re.ASCII,
)
_SECURE_STRING = lazy(r"(?i)(\bConvertTo-SecureString\s+(?:-AsPlainText\s+)?(?:-String\s+)?[\"'])([^\"'\n]+)", re.ASCII)

# ssh(1), scp(1): options that take an argument.
_SSH = lazy(r"(?<![\w-])(?P<program>ssh|scp|sftp|mosh|autossh|slogin)(?P<rest>(?:[ \t]+[^\s|;&\"']+){1,24})", re.ASCII)
_WITH_ARGUMENT = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
_HOST_NAME = lazy(r"[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}\Z", re.ASCII)


def _jump(hops: str, memory: Memory) -> str:
    """`-J [user@]host[:port],...`"""
    return ",".join(_destination(hop, memory, sure=True) for hop in hops.split(","))


def _destination(word: str, memory: Memory, *, sure: bool) -> str:
    user, at, place = word.rpartition("@")
    host, colon, port = place.partition(":")
    if not _HOST_NAME.match(host) or not (sure or telling(host)):
        return word
    return (memory.user(user) if user else "") + at + memory.host(host, everywhere=telling(host)) + colon + port


def _ssh(match: re.Match[str], memory: Memory) -> str:
    """`ssh [options] [user@]host [command]`: users and hosts of options, and of `ssh` the first word that is none."""
    words = re.split(r"([ \t]+)", match["rest"])
    options = found = False
    login = match["program"] in ("ssh", "slogin", "autossh", "mosh")  # of scp and sftp, -l limits the bandwidth
    option = ""
    for at in range(2, len(words), 2):
        word = words[at]
        if option:
            words[at] = memory.user(word) if option == "l" and login else _jump(word, memory) if option == "J" else word
            option = ""
        elif word.startswith("-") and len(word) > 1 and not found:
            options = options or len(word) == 2
            option = word[1] if len(word) == 2 and word[1] in _WITH_ARGUMENT else ""
            if word[1] == "l" and len(word) > 2 and login:
                words[at] = word[:2] + memory.user(word[2:])
            elif word[1] == "J" and len(word) > 2:
                words[at] = word[:2] + _jump(word[2:], memory)
        elif not found and login:
            found = True
            words[at] = _destination(word, memory, sure=options)
    return match["program"] + "".join(words)


def _programs(text: str, memory: Memory) -> str:
    def host(names: str) -> str:
        if "[" in names:
            return memory.of("nodes", names)
        return ",".join(memory.host(name, everywhere=telling(name)) for name in names.split(","))

    def bucket(name: str) -> str:
        return memory.of("bucket", name)

    makers: tuple[Callable[[str], str], ...] = (memory.secret, memory.user, host, bucket)

    def pair(match: re.Match[str]) -> str:
        if is_stand_in(match[3]):
            return match[0]
        between = match.string[match.end(2) : match.start(3)]
        return match[1] + memory.user(match[2]) + between + memory.secret(match[3])

    def line(match: re.Match[str]) -> str:
        number = next(n for n in range(len(_PROGRAMS)) if match[f"p{n}"] is not None)
        rest = match["rest"]
        *single, pairs = _PATTERNS[number]
        for pattern in pairs:
            rest = pattern.sub(pair, rest)
        for patterns, make in zip(single, makers, strict=True):
            for pattern in patterns:
                rest = second(pattern, make, rest)
        return match["program"] + rest

    return _LINE.sub(line, text)


def commands(text: str, memory: Memory) -> str:
    """`text` without passwords, users and hosts in command lines of known programs."""
    if "echo" in text or "printf" in text:
        text = second(_PIPED, memory.secret, text)
    if "SecureString" in text:
        text = second(_SECURE_STRING, memory.secret, text)
    if " -" in text or " /" in text or "login" in text or any(name in text for name in _BARE):
        text = second(_OPENSSL, memory.secret, text)
        text = _programs(text, memory)
    if "ssh" in text or "scp" in text or "sftp" in text or "mosh" in text:
        text = _SSH.sub(lambda match: _ssh(match, memory), text)
    return text
