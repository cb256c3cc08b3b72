"""Who: e-mail addresses, user names and home directories, telephone numbers."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.people_places import PEOPLE
from forensics.report.redaction.shapes import TO
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.words import FOLDERS, NO_HOSTS, ORDINARY, SERVICES, TURNS, of_story

_EMAIL = lazy(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w@(-])", re.ASCII)
# `recall@10.mean`, `acc@top1.val`: a metric at a cut, and a part of it. `163.com` and the like are mail.
_METRIC = lazy(
    r"(?i)(?:[^@]+@\d+\.(?!com\b|net\b|org\b|cn\b|edu\b)[a-z]+"
    r"|[\w.-]*?(?:recall|precision|acc(?:uracy)?|n?dcg|hits?|map|ap|mrr|pass|top|success|bleu|f1|hr|auc|err(?:or)?|[rp])"
    r"@(?:k|n|(?:top|rank)-?\d+)\.[a-z]+)\Z"
)
# `10.3.1.8@o2ib`: a network of Lustre, as LNet names them.
_LNET = lazy(r"(?:o2ib|tcp|kfi|gni|ptlf|lo)\d{0,3}\Z")
# `user@1000.service`: an instance of a unit of systemd.
_UNIT = lazy(r"\.(?:service|slice|scope|socket|target|timer|mount)\Z")
# `alice@dgx17:~$`, `alice@dgx17:/data`, `scp x alice@dgx17:y`, `ssh alice@dgx17`: prompts and targets of a login.
_PROMPT = lazy(
    r"(?<![\w.@+-])([A-Za-z_][\w.-]{0,31})@([A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,8}"
    r"|\d{1,3}(?:-\d{1,3}){3})(?=:[~/\w.]|[\s:#$\"']|\Z)",
    re.ASCII,
)
_SSH = lazy(
    r"(\b(?:ssh|scp|sftp|rsync|mosh|autossh)\s(?:[^\n|;&]{0,160}?\s)?)([A-Za-z_][\w.-]{0,31})@([\w.-]{1,253})", re.ASCII
)
# In `/home/x`, and where homes lie elsewhere: `/mnt/home/x`, `/lustre/users/x`, `/home/users/x`, `/p/home/jusers/x`.
_HOME = lazy(
    r"((?:/home\d{0,3}(?:[\\/]{1,2}(?:j?users|userexternal|usertrain|staff|students?|people|faculty)"
    r"(?=[\\/]{1,2}\w))?|/Users|/users"
    r"|/homes?|/user"
    r"|[A-Za-z]:[\\/]{1,4}(?:Users|Documents and Settings))[\\/]{1,4})(?![a-z0-9]/(?:\w\w/)?user-\d)"
    r"([^\s\\/:\"'<>|,;)\]}]+(?<!\.))"
)
# Homes by first letters: `/home/s/sjones7`, `/afs/cell/user/f/fbianchi`, `/home/s/sj/sjones7`.
_BY_LETTER = lazy(
    r"(/(?:home\d{0,3}|homes|users?|u)/(?P<letter>[a-z0-9])/(?:(?P=letter)\w/)?)(?P<user>"
    r"(?P=letter)[a-z0-9._-]{1,31})(?=[/\s\"']|\Z)",
    re.ASCII,
)
# Of Windows also with spaces: `C:\Users\Maria Lopez\x`.
# On servers of Windows: `\\\\nas\home\x`.
_SHARE_HOME = lazy(
    r"(\\\\[\w.-]{1,253}\\{1,2}(?:homes?\$?|users\$?|profiles\$?)\\{1,2})([A-Za-z][\w.-]{1,31})(?=\\|[\s\"']|\Z)",
    re.ASCII | re.I,
)
_WINDOWS_HOME = lazy(
    r"((?:[A-Za-z]:|/mnt/[a-z])(?P<slash>[\\/]{1,4})(?:Users|Documents and Settings)(?P=slash))"
    r"(?P<user>[\w.'-]{1,32}(?: [\w.'-]{1,32}){1,3})(?=(?P=slash)(?!\s))"
)
# Allocations: `/project/def-smith/smithj/x`, `/projects/p200123/jsmith`. Others there are sooner folders of programs.
_GROUP = lazy(
    r"((?<![\w./:])/(?:[\w.-]{1,32}/)?projects?/)((?:def|rrg|rpp|ctb)-[a-z0-9-]{1,31}|"
    r"(?=[a-z]+[_-]?\d)[a-z][a-z0-9_-]{1,31})"
    r"(/)([a-z][a-z0-9_-]{2,31})(?=[/\s\"']|\Z)",
    re.ASCII,
)
_OF_A_JOB = lazy(r"(?:job|slurm|pbs|lsf|tmp)[._-]?\d+\Z", re.ASCII)  # the scratch space of one
# The same, percent-encoded in an address.
_ENCODED_HOME = lazy(r"(?i)(%2F(?:home\d?|Users)%2F)([a-z_][\w.-]{0,31})(?=%|[\s\"'&]|\Z)", re.ASCII)
# Places that are a user's own by custom. `/scratch/x` may also be a project: it is replaced all the same.
_OWN_PLACE = lazy(
    r"((?<![\w.])/(?:var/(?:spool/)?mail|run/user|media|u|afs/[\w.]{1,60}/user|net/scratch|scratch\d?(?:/(?:gpfs"
    r"|lustre|beegfs|vast|ssd|users?))?"
    r"|gscratch|lscratch|work\d?/users)/)"
    r"([a-z_][a-z0-9._-]{1,31})(?=/)",
    re.ASCII,
)
# The mailbox and the table of jobs of a user are files.
_MAILBOX = lazy(
    r"((?<![\w.])/var/(?:spool/)?(?:mail|cron(?:/crontabs|/tabs)?)/)([a-z_][a-z0-9._-]{1,31})(?=[\s\\\"',:;)\]}|]|\Z)",
    re.ASCII,
)
# Windows calls the folder of an organisation's files after it: `OneDrive - Zeta AG`.
_ONEDRIVE = lazy(r"(\bOneDrive - )([^\\/\n\"'<>|:]{2,60})(?=[\\/])")
_TILDE = lazy(r"((?<![\w/.~])~)([a-z_][a-z0-9_-]{1,31})(?=/|\s*\Z)", re.ASCII)
_USER_KEY = lazy(
    r"(?i)((?<![A-Za-z])(?:user|user[._-]?name|logname|uname(?!\W{1,4}(?:Linux|Darwin)\b)|owner"
    r"|submitter|author|(?<!last )login|run[_-]?as|requested[_ -]by|submitted[_ -]by|started[_ -]by|slurm_job_user"
    r"|slurmd_user|sudo_user|kaggle_username"
    r"|mlflow_tracking_username|user[._]?id)"
    r"(?:\\?[\"']?(?:\s?=\s?|:\s)\\?[\"']?|\\?[\"']:\\?[\"']))([A-Za-z_][\w.-]{1,31})(?![\w(/])",
    re.ASCII,
)
# `Quantum physics is hard`: a capital, then words, and no other field.
_SENTENCE = lazy(r"[A-Z][a-z']*,?(?: [a-z][a-z']*,?){2,}(?![^\n]*[:=])", re.ASCII)
# Of a connection string: `Uid=x;`. Of a directory: `uid=x,ou=people,dc=example`.
_UID = lazy(
    r"(?i)((?<![A-Za-z])(?:uid|user id|userid)\s?=\s?\{?)([A-Za-z_][\w.@-]{1,63})(?=\}?;|,\s?(?:ou|dc|cn|o)=)", re.ASCII
)
# Names of persons, of several words, in the fields that hold them, in git's settings and in rows of passwd.
_FULL_NAME = (
    lazy(
        r"(?i)((?<![A-Za-z])(?:full|real|display|given|family|sur|first|last|author|committer|person)[_-]?name\\?[\"']"
        r"\s?[:=]\s?\\?[\"'])([^\s\"'\\][^\n\"'\\]{1,79})(?=\\?[\"'])"
    ),
    lazy(r"(\buser\.name(?:\s|\s?=\s?)[\"'])([^\n\"']{2,80})(?=[\"'])"),
    lazy(r"(\b(?:GIT_(?:AUTHOR|COMMITTER)_NAME=)[\"']?)([^\n\"';=]{2,80}?)(?=[\"';\n]|\Z|\s\w+=)"),
    lazy(r"((?<![A-Za-z])[cC][nN]=)([A-Za-z][^\n,=\"'<>]{1,79})(?=,\s?(?:[oO][uU]|[dD][cC]|[cC][nN])=)"),
    lazy(r"([\"'])([A-Z\u00c0-\u00de\u0400-\u042f][^\"'<>\n]{1,80}?)(?=[\"']? <email-\d{1,9}>)"),
    # `Name Surname <mail>`, also where the address has its stand-in
    lazy(
        r"((?<![\w<]))([A-Z\u00c0-\u00de\u0400-\u042f][\w.'-]{1,40}"
        r"(?: [A-Z\u00c0-\u00de\u0400-\u042f][\w.'-]{0,40}){1,3})(?= <email-\d{1,9}>)"
    ),
    lazy(r"((?<![\w:])[a-z_][\w.-]{0,31}:[x*!]?:\d+:\d+:)([^:\n,]{2,80})(?=[^:\n]{0,80}:/)"),
    lazy(
        r"(^\s{0,8}(?:Author|Committer|Commit|(?:Signed-off|Co-authored|Reviewed|Acked|Tested|Reported|Suggested|Approved)-by"
        r"|Cc):\s{1,5})([^\n<>\d]{2,80}?)(?= <)",
        re.MULTILINE,
    ),
)
_PASSWD = lazy(
    r"((?:^|(?<=[\s\"'>]))(?=[^\s:]{1,32}:[x*!]?:\d+:\d+:[^:\n]{0,160}:/))([a-z_][\w.-]{0,31})(?=:)", re.ASCII | re.M
)
# The Hub's whoami: `{'type': 'user', 'name': 'x'`.
_WHOAMI = lazy(
    r"(\\?[\"']type\\?[\"']\s?:\s?\\?[\"']user\\?[\"'],[^{}\n]{0,200}?\\?[\"']name\\?[\"']\s?:\s?\\?[\"'])"
    r"([\w.-]{1,64})(?=\\?[\"'])",
    re.ASCII,
)
_USER_OPTION = lazy(
    rf"((?:--(?:user|username|login|owner|author|uid){TO}|(?<=\s)[/-]user(?:name)?:(?:[\w.-]+\\)?))"
    rf"([A-Za-z_][\w.-]{{1,31}})(?![\w:])",
    re.ASCII,
)
# `uid=1001(alice) gid=...`, `UserId=alice(1001)`.
_IDS = lazy(r"(\b(?:uid|gid|groups|euid)=\d+\()([A-Za-z_][\w.-]{0,31})(?=\))", re.ASCII)
_ID_PAIR = lazy(r"(\b(?:UserId|GroupId)=)([A-Za-z_][\w.-]{0,31})(?=\(\d)", re.ASCII)
# In sentences, where words follow as often: `called by user code`, `Dict of user inputs`.
_OF_USER = lazy(
    r"(\b(?:for|by|as|of) user )([A-Za-z_][\w.-]{0,62}\w)(?=[\s]*$|[,;:()\]\"'>]|\.?\s|\.$)"
    r"(?!,? (?:and|or|as|to|is|are|in|that|which|need|have|does|if|when|the)\b| by [a-z])",
    re.ASCII | re.M,
)
_OF_PROGRAMS = frozenset(
    "inputs outputs values programs modules module functions function defined supplied provided specified space "
    "code scripts level error errors guide interface kernel kernels stream streams metadata annotations "
    "annotation context settings preference preferences understanding input output need to as for in is are and "
    "or type types class classes objects object variables variable hooks hook ops op tensors tensor stack frames "
    "frame threads thread models id ids agent agents request requests query queries prompt prompts message "
    "messages action actions interaction callback callbacks experience friendliness convenience customization "
    "overrides override options option arguments args reference nodes node buffers params parameters data "
    "namespaces namespace process processes mode facing flow land".split()
)
# The same, where a host stands beside: `Connected to h as x`, `user x on host h`; and `logging in as x`.
_LOGS_IN = lazy(
    r"(\b(?:[Cc]onnected to [\w.-]{2,253} as |[Ll]ogging in as:? )(?:user )?[\"'<]?"
    r"|\buser (?=[\w.-]+ on (?:host|node)\b))"
    r"([A-Za-z_][\w.-]{1,62}\w)(?=[\"'>]?(?:\s*$|[.,;:)]|\.\.\.| on ))",
    re.ASCII | re.M,
)
# Who is logged in, also at a service: `Logged in as x`, `Logged in to W&B as x`; or as what.
_LOGGED_IN = lazy(
    r"(\b[Ll]ogged in(?: (?:to|at|on|into) [^\s:]{1,60})? as:? (?:user )?[\"'<]?)([A-Za-z_][\w.-]{0,62}\w)", re.ASCII
)
_CREATED_BY = lazy(
    r"(\b(?:created|launched|modified)_by\\?[\"']?\s?[:=]\s?\\?[\"']?)([A-Za-z_][\w.-]{2,31})(?![\w(/])", re.ASCII
)
_SAID = (
    lazy(
        r"(\b(?:[Uu]ser name is )[\"'<]?|\b(?:for|by|as|of) user [\"'<])([A-Za-z_][\w.-]{0,62}\w)",
        re.ASCII,
    ),
    lazy(r"(\bAuthenticating to \S{1,253} as '|\bauthenticating user |\bUser name: )([A-Za-z_][\w.-]{0,31})", re.ASCII),
    lazy(r"(\b(?:getuser|getlogin)\(\)\s?(?:[:=]|->|=>|is|returned)\s?\\?[\"'])([A-Za-z_][\w.-]{0,31})", re.ASCII),
    lazy(r"(\bUserId\\?[\"']?\s?[:=]\s?\\?[\"']?[\w-]{4,40}:)([A-Za-z_][\w.@+=-]{1,63})", re.ASCII),  # AWS STS
    lazy(
        r"(\b(?:user '|role [\"']))([A-Za-z_][\w.-]{0,31})(?='@|[\"'] (?:does not exist|is not permitted"
        r"|already exists))",
        re.ASCII,
    ),
    lazy(r"(\bPSCredential\s?\(\s?[\"'](?:[\w.-]+\\)?)([A-Za-z_][\w.@-]{0,63})", re.ASCII),
    lazy(r"(\bowner(?: is)? )((?=[a-z_]+\d)[a-z_][\w-]{2,31})(?![\w.(=:])", re.ASCII),
    lazy(
        r"(\d+'C,[^\n]{1,80}?\|[^\n]{0,200}?[\s|])(?!user-\d)([a-z_][\w.-]{0,31})(?=(?::[^\s()]{1,80})?\(\d+M\))",
        re.ASCII,
    ),  # gpustat
    lazy(r"(\b(?:TODO|FIXME)\()([a-z][\w.-]{1,31})(?=\))", re.ASCII),  # in lines of code
    lazy(
        r"(\b(?:quota|squeue|sacct|scancel|top|ps|pkill|sudo)\s(?:-[\w-]{1,20}\s){0,3}-u\s)"
        r"([A-Za-z_][\w.-]{1,31})(?![\w(=])",
        re.ASCII,
    ),
    lazy(r"(\bsudo(?:\[\d+\])?:\s{1,8})([A-Za-z_][\w.-]{1,31})(?= : )", re.ASCII),
    # sshd and cron
    lazy(
        r"(\b(?:Accepted|Failed|Postponed) [\w/-]{3,40} for (?:invalid user )?"
        r"|\bpam_unix\(\S+\): session \w+ for user )"
        r"([A-Za-z_][\w.-]{0,31})(?=[\s(]|\Z)",
        re.ASCII,
    ),
    lazy(r"(\bCRON\[\d+\]: \(|\bcrond?\[\d+\]: \()([A-Za-z_][\w.-]{0,31})(?=\) )", re.ASCII | re.I),
    lazy(
        r"(\bhsperfdata_|/torchinductor_|/(?:tmp|shm|scratch)/(?:ray_|nccl_)|/pymp-|/tmux-)"
        r"(?!(?:trace|results?|debug|tests?|train|topo|tune|log|dump|fr|spill|session|current|plasma)s?(?:[_./\s\"'-]|\Z))"
        r"([A-Za-z][\w.-]{1,31})(?=[/\s\"']|\Z)",
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
        if local == "git" or is_stand_in(local) or _UNIT.search(match[0]) or _METRIC.match(match[0]):
            return match[0]
        # `alice@dgx17.corp.example:/data` is a login as well as an address.
        return memory.of("email", match[0].lower())

    def login(match: re.Match[str]) -> str:
        return match[1] + f"{memory.user(match[2])}@{memory.host(match[3])}"

    def prompt(match: re.Match[str]) -> str:
        digest = match[2] in ("sha256", "sha512")  # of a container image
        lnet = _LNET.match(match[2]) is not None
        if match[1] == "git" or digest or lnet or is_stand_in(match[2]) or _METRIC.match(match[0]):
            return match[0]
        service = is_stand_in(match[1]) and match[2] in SERVICES  # of a connection: `secret-1@redis:6379`
        return f"{memory.user(match[1])}@{memory.host(match[2], everywhere=not service)}"

    return _PROMPT.sub(prompt, _EMAIL.sub(replace, _SSH.sub(login, text)))


def _allocation(match: re.Match[str], memory: Memory) -> str:
    if match[4] in ORDINARY or match[4] in FOLDERS:
        return match[0]
    return match[1] + memory.account(match[2]) + match[3] + memory.user(match[4])


def _own_place(match: re.Match[str], memory: Memory) -> str:
    if match[2] in FOLDERS or _OF_A_JOB.match(match[2]):
        return match[0]
    return match[1] + memory.user(match[2])


def _keyed(match: re.Match[str], memory: Memory) -> str:
    """Who stands behind `user:` and the like; a turn of a chat does as well."""
    if "=" not in match[1] and (match[2].lower() in TURNS or _SENTENCE.match(match.string, match.start(2))):
        return match[0]
    return match[1] + memory.user(match[2])


def _unless_word(name: str, memory: Memory) -> str:
    lowered = name.lower()
    word = lowered in _OF_PROGRAMS or lowered in ORDINARY or lowered in TURNS or lowered in NO_HOSTS
    return name if word else memory.user(name)


def users(text: str, memory: Memory) -> str:
    """`text` without names of users: in home directories, behind the words that name them, and where they are known."""
    if "/" in text or "\\" in text or "~" in text:
        for pattern in (_WINDOWS_HOME, _BY_LETTER):
            text = pattern.sub(lambda match: match[1] + memory.user(match["user"]), text)
        for pattern in (_HOME, _SHARE_HOME, _MAILBOX, _TILDE):
            text = second(pattern, memory.user, text)
        text = _OWN_PLACE.sub(lambda match: _own_place(match, memory), text)
        if "OneDrive - " in text:
            text = second(_ONEDRIVE, memory.account, text)
        if "/project" in text:
            text = _GROUP.sub(lambda match: _allocation(match, memory), text)
    if "%2F" in text or "%2f" in text:
        text = second(_ENCODED_HOME, memory.user, text)
    if ":" in text or "=" in text or "user.name" in text or "<email-" in text:
        for pattern in (_PASSWD, *_FULL_NAME, _WHOAMI, _UID):
            text = second(pattern, memory.user, text)
    text = _USER_KEY.sub(lambda match: _keyed(match, memory), text)
    for pattern in (_USER_OPTION, _IDS, _ID_PAIR, *_SAID):
        text = second(pattern, memory.user, text)
    if "ogged in" in text:
        text = second(_LOGGED_IN, lambda name: _unless_word(name, memory), text)
    if "user " in text:
        text = second(_OF_USER, lambda name: _unless_word(name, memory), text)
    if " as" in text or "user " in text or "ed_by" in text:
        for pattern in (_LOGS_IN, _CREATED_BY):
            text = second(pattern, lambda name: name if of_story(name) else _unless_word(name, memory), text)
    for pattern, words in PEOPLE:
        if any(word in text for word in words):
            text = second(pattern, memory.user, text)
    return memory.known_people(text)


def phones(text: str, memory: Memory) -> str:
    """`text` without telephone numbers in their international and North American forms."""

    def replace(match: re.Match[str]) -> str:
        digits = sum(char.isdigit() for char in match[0])
        separated = any(char in match[0][1:] for char in " .-()")
        return memory.of("phone", match[0]) if 9 <= digits <= 15 and (separated or digits >= 11) else match[0]

    return _PHONE.sub(replace, text)
