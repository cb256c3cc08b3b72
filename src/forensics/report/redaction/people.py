"""Who: e-mail addresses, user names and home directories, telephone numbers."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.stand_ins import is_stand_in

_EMAIL = lazy(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w@(-])", re.ASCII)
# `user@1000.service`: an instance of a unit of systemd.
_UNIT = lazy(r"\.(?:service|slice|scope|socket|target|timer|mount)\Z")
# `alice@dgx17:~$`, `alice@dgx17:/data`, `scp x alice@dgx17:y`, `ssh alice@dgx17`: prompts and targets of a login.
_PROMPT = lazy(
    r"(?<![\w.@+-])([A-Za-z_][\w.-]{0,31})@([A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,8})(?=:[~"
    r"/\w.]|[\s:#$\"']|\Z)",
    re.ASCII,
)
_SSH = lazy(
    r"(\b(?:ssh|scp|sftp|rsync|mosh|autossh)\s(?:[^\n|;&]{0,160}?\s)?)([A-Za-z_][\w.-]{0,31})@([\w.-]{1,253})", re.ASCII
)
# In `/home/x`, and where homes lie elsewhere: `/mnt/home/x`, `/lustre/users/x`, `/scratch/users/x`.
_HOME = lazy(
    r"((?:/home\d?|/Users|/users|/homes?|/user|[A-Za-z]:[\\/]{1,2}(?:Users|Documents and Settings))[\\/]{1,2})"
    r"([^\s\\/:\"'<>|,;)\]}]+(?<!\.))"
)
# Places that are a user's own by custom. `/scratch/x` may also be a project: it is replaced all the same.
_OWN_PLACE = lazy(
    r"((?<![\w.])/(?:var/(?:spool/)?mail|run/user|media|u|afs/[\w.]{1,60}/user|net/scratch|scratch\d?"
    r"|gscratch|lscratch|work\d?/users)/)"
    r"([a-z_][a-z0-9._-]{1,31})(?=/)",
    re.ASCII,
)
_TILDE = lazy(r"((?<![\w/.~])~)([a-z_][a-z0-9_-]{1,31})(?=/|\s|\Z)", re.ASCII)
_USER_KEY = lazy(
    r"(?i)((?<![A-Za-z])(?:user|user[_-]?name|logname|uname|owner|submitter|author|login|run[_-]?as|requested[_ -]by|"
    r"submitted[_ -]by|started[_ -]by|slurm_job_user|slurmd_user|sudo_user|kaggle_username"
    r"|mlflow_tracking_username|user_?id)"
    r"\\?[\"']?(?:\s?=\s?|:\s)\\?[\"']?)([A-Za-z_][\w.-]{1,31})(?![\w(/])",
    re.ASCII,
)
_USER_OPTION = lazy(r"(--(?:user|username|login|owner|author|uid)[= ])([A-Za-z_][\w.-]{1,31})(?![\w:])", re.ASCII)
# `uid=1001(alice) gid=...`, `UserId=alice(1001)`.
_IDS = lazy(r"(\b(?:uid|gid|groups|euid)=\d+\()([A-Za-z_][\w.-]{0,31})(?=\))", re.ASCII)
_ID_PAIR = lazy(r"(\b(?:UserId|GroupId)=)([A-Za-z_][\w.-]{0,31})(?=\(\d)", re.ASCII)
_SAID = (
    lazy(
        r"(\b(?:logged in as:? |for user |by user |as user |of user |user name is )[\"']?)([A-Za-z_][\w.-]{1,63})",
        re.ASCII,
    ),
    lazy(r"(\bsudo:\s{1,8})([A-Za-z_][\w.-]{1,31})(?= : )", re.ASCII),
    lazy(
        r"(\bhsperfdata_|/torchinductor_|/ray_|/pymp-|/tmux-|/nccl_)([A-Za-z][\w.-]{1,31})(?=[/\s\"']|\Z)",
        re.ASCII,
    ),
)

_PHONE = lazy(
    r"(?<![\w.+/:-])(?:"
    r"\+[1-9]\d{0,2}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}"
    r"|\(\d{3}\) ?\d{3}[-. ]\d{4}"
    r"|[2-9]\d{2}-[2-9]\d{2}-\d{4}"
    r")(?![\w%:+-]|\.\d)",
    re.ASCII,
)


def emails(text: str, memory: Memory) -> str:
    """`text` without e-mail addresses, and without who logs in where (`user@host`)."""
    if "@" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        local = match[0].partition("@")[0]
        if local == "git" or is_stand_in(local) or _UNIT.search(match[0]):
            return match[0]
        # `alice@dgx17.corp.example:/data` is a login as well as an address.
        return memory.of("email", match[0].lower())

    def login(match: re.Match[str]) -> str:
        return match[1] + f"{memory.user(match[2])}@{memory.host(match[3])}"

    def prompt(match: re.Match[str]) -> str:
        if match[1] == "git" or is_stand_in(match[2]):
            return match[0]
        return f"{memory.user(match[1])}@{memory.host(match[2])}"

    return _PROMPT.sub(prompt, _EMAIL.sub(replace, _SSH.sub(login, text)))


def users(text: str, memory: Memory) -> str:
    """`text` without names of users: in home directories, behind the words that name them, and where they are known."""
    if "/" in text or "\\" in text or "~" in text:
        for pattern in (_HOME, _OWN_PLACE, _TILDE):
            text = second(pattern, memory.user, text)
    for pattern in (_USER_KEY, _USER_OPTION, _IDS, _ID_PAIR, *_SAID):
        text = second(pattern, memory.user, text)
    return memory.known_people(text)


def phones(text: str, memory: Memory) -> str:
    """`text` without telephone numbers in their international and North American forms."""

    def replace(match: re.Match[str]) -> str:
        digits = sum(char.isdigit() for char in match[0])
        separated = any(char in match[0][1:] for char in " .-()")
        return memory.of("phone", match[0]) if 9 <= digits <= 15 and (separated or digits >= 11) else match[0]

    return _PHONE.sub(replace, text)
