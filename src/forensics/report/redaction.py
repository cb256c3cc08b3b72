"""Takes secrets and identities out of text that is going to be shared.

One `Redactor` a report: within it the same thing always gets the same stand-in (`host-1`, `ip-2`, `secret-1`), so that
the story stays readable, and nothing can be joined across reports. Patterns are those that the issuers document or that
their own scanners use; what looks like nothing in particular is not found (docs/redaction.md says what is).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from forensics.model import Diagnosis

_STAND_IN = re.compile(r"(?:host|ip|user|email|bucket|secret|mac)-\d+\Z", re.ASCII)
_MAX_PASSES = 6

# --- secrets that are told by their own shape ---------------------------------------------------------------------

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{3,40}-----.*?(?:-----END [A-Z0-9 ]{3,40}-----|\Z)", re.DOTALL)

# Minimal lengths are below the issued ones: a log line that is cut inside a token must not save the rest of it.
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}"  # AWS key and principal ids
    r"|AIza[\w-]{20,}|ya29\.[\w-]{10,}|GOCSPX-[\w-]{10,}"  # Google API key, OAuth token, client secret
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas)-[\w-]{10,}"
    r"|(?:hf|api_org)_[A-Za-z0-9]{16,}"
    r"|sk-(?:proj-|ant-|svcacct-|admin-|or-)?[\w-]{16,}|sk_(?:live|test)_[A-Za-z0-9]{10,}"  # OpenAI, Anthropic, Stripe
    r"|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}"  # Slack
    r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?|eyJ[\w-]{40,}={0,2}"  # JWT; Neptune's base64 of JSON
    r"|wandb_v\d_\w{16,}|nvapi-[\w-]{16,}|gsk_[A-Za-z0-9]{16,}|xai-\w{16,}|r8_[A-Za-z0-9]{16,}|dapi[0-9a-f]{24,}"
    r"|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{10,}|dop_v1_\w{16,}|SG\.[\w-]{10,}\.[\w-]{10,}"
    r")",
    re.ASCII,
)
_WEBHOOK = re.compile(
    r"(hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)([\w/-]{6,})", re.ASCII | re.I
)
# A W&B key is 40 hex digits, as is a git commit: only what stands near its name is taken for one.
_WANDB = re.compile(r"(?i)((?:wandb|w&b|weights (?:and|&) biases)[^\n]{0,160}?)\b([0-9a-f]{40})\b", re.ASCII)
_AUTHORIZATION = re.compile(
    r"(?i)(\b(?:proxy-)?authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:bearer|basic|token|digest|negotiate|aws4-hmac-sha256)\s+)?)"
    r"([^\s\"'\\,;]{3,})",
    re.ASCII,
)
_BEARER = re.compile(r"(?i)(\bbearer\s+)((?=[\w.~+/-]*\d)[\w.~+/-]{8,}=*)", re.ASCII)
_COOKIE = re.compile(r"(?i)(\b(?:set-)?cookie\\?[\"']?\s*:\s*)([^\n\"']{4,})", re.ASCII)
_URL_USER = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{1,20}://)([^\s/\"'<>]{1,300})@", re.ASCII)

# --- secrets that are told by their name ---------------------------------------------------------------------------

_KEY = re.compile(
    r"(?i)(?P<key>pass(?:word|wd|phrase)|passwd|pwd|secret(?:s|[_-]?(?:access[_-]?)?key)?|api[_-]?key|access[_-]?key"
    r"(?:[_-]?id)?|account[_-]?key|private[_-]?key|auth[_-]?key|credentials?|token|x-amz-security-token|sig(?:nature)?)"
    r"(?P<sep>\\?[\"']?[ \t]{0,3}(?::=|[=:](?![=:]))[ \t]{0,3}|[ \t]{1,3})"
    r"(?:(?P<escaped>\\[\"'])(?P<value1>(?:(?!(?P=escaped))[^\n]){1,1000})"  # \"password\": \"hunter2\"
    r"|(?P<quote>[\"'])(?P<value2>(?:\\.|(?!(?P=quote))[^\\\n]){1,1000})(?=(?P=quote)|\Z)"
    r"|(?P<value3>[^\s,;&\"'<>()\[\]{}|\\]{1,1000}))",
    re.ASCII,
)
# These words have other uses than to name a secret: they need more than a name and a value.
_WEAK_KEYS = frozenset({"token", "secrets", "credential", "credentials"})
# Language models speak of tokens all day: these are counts, special tokens and settings, and no secrets.
_NO_SECRET_BEFORE = re.compile(
    r"(?i)(?<![A-Za-z])(?:pad|eos|bos|unk|sep|cls|mask|special|max|min|num|n|image|img|per|next|stop|end|start|begin|first|last|new|"
    r"add|skip|audio|video|vision|think|tool|extra|prev|current|cur|each|every|total|avg|mean|prompt|input|output|"
    r"generated|a|the|of|unexpected|invalid|unknown|this|that|no|by|ms|forced|decoder|encoder|placeholder|"
    r"model|draft|target|global|sample|bad|second|sequence|seq|time|label|ignore)[ _.-]?\Z",
    re.ASCII,
)
_NO_SECRET = re.compile(
    r"(?i)(?:true|false|none|null|nil|undefined|unset|empty|yes|no|set|not|missing|required|invalid|\*+|x{3,}|"
    r"\.{3,}|<[^>]*>?|\[[^\]]*\]?|[$%{(].*|\\[nt].*|str|int|bool|os\.\S*|args\.\S*|self\.\S*|"
    r"redacted\S*)\Z",
    re.ASCII,
)

# --- identities ----------------------------------------------------------------------------------------------------

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w@(-])", re.ASCII)
# `alice@dgx17:~$` and `alice@dgx17:/data`: a prompt or an scp target.
_PROMPT = re.compile(r"(?<![\w.@+-])([A-Za-z_][\w.-]{0,31})@([A-Za-z][A-Za-z0-9-]{0,62})(?=:[~/])", re.ASCII)
_HOME = re.compile(
    r"((?:/home\d?|/Users|/users|[A-Za-z]:[\\/]{1,2}(?:Users|Documents and Settings))[\\/]{1,2})"
    r"([^\s\\/:\"'<>|,;)\]}]+(?<!\.))"
)
_USER_KEY = re.compile(
    r"(?i)(\b(?:user|username|user_name|logname|uname|owner|submitter|slurm_job_user)=[\"']?)([A-Za-z_][\w.-]{1,31})",
    re.ASCII,
)
_COMMON_USERS = frozenset(
    {
        *("user", "users", "root", "runner", "ubuntu", "ec2-user", "centos", "debian", "jovyan", "admin", "app"),
        *("administrator", "default", "public", "shared", "all", "me", "nobody", "work", "workspace"),
        *("none", "null", "true", "false"),
    }
)

_IPV4 = re.compile(r"(?<![0-9A-Za-z.])(?:\d{1,3}\.){3}\d{1,3}(?![0-9A-Za-z]|\.\d)", re.ASCII)
_VERSION_BEFORE = re.compile(
    r"(?i)(?:version|\bver|release|cudnn|nccl|cuda|cublas|cufft|toolkit|firmware|\bfw|vbios|rocm|\bhip|torch|python|"
    r"\.so|cu\d\d|[=<>~!]=|nvidia\w*)[\"']?[\s:=(_-]{0,3}[\"'v]?\Z",
    re.ASCII,
)
_VERSION_AFTER = re.compile(r"-(?:py|cp)\d|\.dist-info|\.(?:whl|tar|so)\b|\+cu\d", re.ASCII)
_OPEN_IPS = re.compile(r"(?:127\.|0\.0\.0\.0\Z|255\.255\.)", re.ASCII)
# After a colon too: NCCL prints `[1]eth0:fe80::1%eth0<0>`.
_IPV6 = re.compile(r"(?:(?<![\w:.])|(?<=\w:))[0-9A-Fa-f:]{4,40}(?![\w:]|\.\d)", re.ASCII)
_MAC = re.compile(
    r"(?<![0-9A-Fa-f:-])(?:(?:[0-9A-Fa-f]{2}:){5,19}|(?:[0-9A-Fa-f]{2}-){5,7})[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])", re.ASCII
)

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Two kinds of domain: those that no module of a program is called, and those that are told from `threading.local` or
# `google.protobuf.internal` by a digit or hyphen in the name before them.
_FQDN = re.compile(
    rf"(?<![\w.-])(?:{_LABEL}\.){{1,8}}(?:(?:corp|lan|intranet|localdomain|ec2\.internal|compute\.internal|"
    rf"compute\.amazonaws\.com|cluster\.local|edu|gov|mil|ac\.[a-z]{{2}})|(?P<vague>internal|local|intra|private|home|svc))"
    rf"(?![\w-]|\.(?!(?:log|out|err|txt|json|jsonl)\b)\w|\()",
    re.ASCII | re.I,
)
_EC2 = re.compile(r"(?<![\w-])ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?![\w-])", re.ASCII)
_NAME = r"[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*"
# Places in which programs print the name of a host, whatever it looks like; group 2 is the name.
_HOST_PLACES = tuple(
    re.compile(pattern, re.ASCII | re.M)
    for pattern in (
        rf"(tfevents\.\d+\.)({_NAME}?)(?=\.\d+\.\d+|\.profile|\.v2|[\s\"']|\Z)",  # TensorBoard puts it into file names
        rf"^()({_NAME})(?=:\d+:\d+ (?:\[\d+\] )?NCCL )",
        rf"^([A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d )({_NAME})(?= (?:kernel|systemd|[\w./-]+\[\d+\]):)",  # syslog
        rf"(\b(?:HOSTNAME|MASTER_ADDR|SLURMD_NODENAME|NODENAME|hostname|master_addr|node_?name)[\"']?[=:] ?[\"']?)"
        rf"({_NAME})",
        rf"(\bhost\s{{1,10}}: )({_NAME})",  # torchrun's summary of a failure
        rf"(\bsrun: error: )({_NAME})(?=: task)",
        rf"(\bON )({_NAME})(?= CANCELLED)",
    )
)
# Names that say what a machine is for and nothing about whose it is: the story of a report is told in them.
_PLAIN_HOST = re.compile(
    r"(?:localhost|local|localdomain|none|unknown|the|train|test|[0-9]+|"
    r"(?:(?:node|worker|host|rank|gpu|server|machine|master|head|compute|launcher|pod|trainer)(?:[-_.]?(?:\d+|[a-z]))?))\Z",
    re.ASCII | re.I,
)
_HOST_CAPTURES = frozenset({"host", "hostname", "node", "nodename", "peer_host", "master_addr"})

_BUCKETS = (
    re.compile(r"(?i)(\b(?:s3[an]?|gs|gcs|az|abfss?|wasbs?|adl|oss|cos|r2|b2)://)([^\s/\"'<>@,;)\]}]+)", re.ASCII),
    re.compile(r"(?i)(@|\bhttps?://)([a-z0-9-]+)(?=\.(?:blob|dfs|file|queue)\.core\.windows\.net)", re.ASCII),
    re.compile(
        r"(?i)(\bhttps?://)([a-z0-9][a-z0-9.-]*?)"
        r"(?=\.s3[.-][a-z0-9.-]*amazonaws\.com|\.storage\.googleapis\.com)", re.ASCII,
    ),
    re.compile(
        r"(?i)(\bhttps?://(?:s3[.-][a-z0-9.-]*amazonaws\.com|storage\.(?:googleapis|cloud\.google)\.com)/)"
        r"([^\s/\"'<>?]+)", re.ASCII,
    ),
)  # fmt: skip
_AZURE_CONTAINER = re.compile(r"(?i)(\b(?:abfss?|wasbs?)://)([^\s/@\"'<>]+)@", re.ASCII)

T = TypeVar("T")


def _telling(name: str) -> bool:
    """Whether a name that a pattern took for a host's may be replaced wherever it occurs, and not only there.

    A place can be misread, and a plain word is then to stay a word everywhere else.
    """
    return any(char in name for char in "-.0123456789")


class Redactor:
    """Replaces what should not leave the house by stand-ins that are stable within one report.

    `hosts` are names known to be hosts (a finding's node); they are replaced wherever they stand as a whole word, also
    in file names. Names that tell nothing (`node-7`, `localhost`, `worker-0`) stay.
    """

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._stand_ins: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._hosts: dict[str, str] = {}  # lower-case name -> stand-in
        self._users: dict[str, str] = {}
        self._taken: set[str] = set()  # real names that look like stand-ins: no other thing may get them
        self._host_pattern: re.Pattern[str] | None = None
        self._user_pattern: re.Pattern[str] | None = None
        hosts = tuple(hosts)
        self._taken.update(host.lower() for host in hosts)
        for host in hosts:
            self.host(host)

    # --- stand-ins

    def _stand_in(self, kind: str, value: str) -> str:
        if _STAND_IN.match(value):
            return value
        if (kind, value) not in self._stand_ins:
            while True:
                self._counts[kind] = self._counts.get(kind, 0) + 1
                name = f"{kind}-{self._counts[kind]}"
                if name not in self._taken:
                    break
            self._stand_ins[kind, value] = name
        return self._stand_ins[kind, value]

    def host(self, name: str, *, everywhere: bool = True) -> str:
        """The stand-in of a host name or address; `everywhere`: it is replaced in any text from now on."""
        bare = name.strip().strip(".[]")
        if _STAND_IN.match(bare) or not re.fullmatch(r"[\w.:%-]{1,253}", bare, re.ASCII):
            return name
        if re.fullmatch(r"[\d.]+|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*", bare):
            return self._addresses(name)
        full, short = bare.lower(), bare.split(".")[0].lower()
        if _PLAIN_HOST.match(short):
            # Of `worker-3.some-job.svc.cluster.local` the domain is what tells, and the name what one needs.
            return bare if full == short else short
        stand_in = self._hosts.get(full) or self._hosts.get(short) or self._stand_in("host", short)
        # Of a name with a domain, "data" or "login" alone are words. One or two letters are a word in any text.
        telling = full == short or any(char in short for char in "-0123456789")
        for form in (full, short) if telling else (full,):
            if everywhere and len(form) > 2 and form not in self._hosts:
                self._hosts[form] = stand_in
                self._host_pattern = None
        return stand_in

    def _user(self, name: str) -> str:
        lowered = name.lower()
        if lowered in _COMMON_USERS or _STAND_IN.match(name) or name.startswith(("$", "{", "%", "*", "~")):
            return name
        if lowered not in self._users:
            self._users[lowered] = self._stand_in("user", lowered)
            self._user_pattern = None
        return self._users[lowered]

    # --- rules, each from text to text

    def _secret(self, value: str) -> str:
        return self._stand_in("secret", value)

    def _second(self, pattern: re.Pattern[str], make: Callable[[str], str], text: str) -> str:
        """Replaces group 2 of each match, and keeps group 1 and what follows group 2."""

        def replace(match: re.Match[str]) -> str:
            return match[1] + make(match[2]) + match[0][match.end(2) - match.start() :]

        return pattern.sub(replace, text)

    def _named_secrets(self, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            key, sep, quoted = match["key"].lower(), match["sep"], match["value3"] is None
            group = "value1" if match["escaped"] else "value2" if match["quote"] else "value3"
            value = match[group]
            before = text[max(0, match.start() - 24) : match.start()]
            secret = not (_NO_SECRET.match(value) or _STAND_IN.match(value) or value.startswith("-"))
            if key.startswith("sig"):  # of a signed URL or request, and not "sig=0.5"
                secret = secret and (before.endswith(("?", "&")) or bool(re.match(r"[0-9a-f]{32}", value)))
            elif key == "pwd":  # also the working directory
                secret = secret and not re.match(r"[/~.]|[A-Za-z]:", value)
            elif key in _WEAK_KEYS:
                # "Unexpected token: foo", "pad_token=<pad>", "token=17"
                telling = quoted or ":" not in sep or (len(value) >= 8 and any(c.isdigit() for c in value))
                secret = secret and telling and not value.isdigit() and not _NO_SECRET_BEFORE.search(before)
            if not quoted and text.startswith("(", match.end()) and re.fullmatch(r"[A-Za-z_][\w.]*", value):
                secret = False  # a call in a traceback's line of code: authkey=current_process().authkey
            if sep.isspace():  # prose, unless it is an option: --password hunter2
                secret = secret and bool(re.search(r"(?:^|[\s\"'\[,])--?[\w-]*\Z", before))
            if not secret:
                return match[0]
            at = match.start(group) - match.start()
            return match[0][:at] + self._secret(value) + match[0][at + len(value) :]

        return _KEY.sub(replace, text)

    def _url_users(self, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            if match[1].lower().startswith(("abfs", "wasb")):
                return match[0]
            user, colon, password = match[2].partition(":")
            if not colon:
                return f"{match[1]}{self._secret(user) if user.lower() not in ('git', 'ssh') else user}@"
            return f"{match[1]}{self._user(user) if user else ''}:{self._secret(password) if password else ''}@"

        return _URL_USER.sub(replace, text)

    def _emails(self, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            local = match[0].partition("@")[0]
            return match[0] if local == "git" or _STAND_IN.match(local) else self._stand_in("email", match[0].lower())

        text = _EMAIL.sub(replace, text)

        def prompt(match: re.Match[str]) -> str:
            return f"{self._user(match[1])}@{self.host(match[2])}"

        return _PROMPT.sub(prompt, text)

    def _known_users(self, text: str) -> str:
        if not self._users:
            return text
        if self._user_pattern is None:
            names = sorted((name for name in self._users if not _STAND_IN.match(name)), key=len, reverse=True)
            # Only as part of a path: a user can be called "max" or "will", and a log is full of such words.
            self._user_pattern = re.compile(
                rf"(?i)(?<=[/\\~])(?:{'|'.join(map(re.escape, names))})(?=[/\\\s:\"'>,)]|\Z)"
            )
        return self._user_pattern.sub(lambda match: self._users.get(match[0].lower(), match[0]), text)

    def _addresses(self, text: str) -> str:
        def mac(match: re.Match[str]) -> str:
            value = match[0].lower()
            # Six pairs of digits with hyphens are a time stamp in a file name.
            return match[0] if "-" in value and not re.search("[a-f]", value) else self._stand_in("mac", value)

        def v4(match: re.Match[str]) -> str:
            parts = match[0].split(".")
            if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in parts) or _OPEN_IPS.match(
                match[0]
            ):
                return match[0]
            before = match.string[max(0, match.start() - 24) : match.start()]
            after = match.string[match.end() : match.end() + 12]
            if _VERSION_BEFORE.search(before) or _VERSION_AFTER.match(after):
                return match[0]
            return self._stand_in("ip", match[0])

        def v6(match: re.Match[str]) -> str:
            from ipaddress import AddressValueError, IPv6Address

            value = match[0]
            if value.count(":") < 2 or not any(char.isdigit() for char in value):
                return value  # `abc::dead` is a name in C++ sooner than an address
            colon = ":" if value.endswith(":") and not value.endswith("::") else ""
            try:
                address = IPv6Address(value.removesuffix(colon))
            except AddressValueError:
                return match[0]
            if address.is_loopback or address.is_unspecified:
                return match[0]
            return self._stand_in("ip", address.compressed) + colon

        return _IPV6.sub(v6, _IPV4.sub(v4, _MAC.sub(mac, text)))

    def _host_names(self, text: str) -> str:
        def placed(name: str) -> str:
            return self.host(name, everywhere=_telling(name))

        for pattern in _HOST_PLACES:
            text = self._second(pattern, placed, text)

        def fqdn(match: re.Match[str]) -> str:
            name = match[0]
            if match["vague"] and not re.search(r"[\d-]", name[: match.start("vague") - match.start()]):
                return name  # threading.local
            return name if name.lower().startswith("www.") else self.host(name)

        text = _EC2.sub(lambda match: self.host(match[0]), _FQDN.sub(fqdn, text))
        if not self._hosts:
            return text
        if self._host_pattern is None:
            names = sorted(self._hosts, key=len, reverse=True)
            # Where "dgx" is a host, "dgx-17" is another one.
            forms = (re.escape(name) + (r"(?!-\d)" if name[-1].isalpha() else "") for name in names)
            self._host_pattern = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{'|'.join(forms)})(?![A-Za-z0-9])")
        return self._host_pattern.sub(lambda match: self._hosts.get(match[0].lower(), match[0]), text)

    def _buckets(self, text: str) -> str:
        def make(name: str) -> str:
            return name if name.startswith(("$", "{", "%")) else self._stand_in("bucket", name)

        text = _AZURE_CONTAINER.sub(lambda match: f"{match[1]}{make(match[2])}@", text)
        for pattern in _BUCKETS:
            text = self._second(pattern, make, text)
        return text

    def _once(self, text: str) -> str:
        text = _PEM.sub(lambda match: self._secret(match[0]), text)
        text = self._second(_AUTHORIZATION, self._secret, text)
        text = self._second(_COOKIE, self._secret, text)
        text = _TOKENS.sub(lambda match: self._secret(match[0]), text)
        text = self._second(_BEARER, self._secret, text)
        text = self._second(_WEBHOOK, self._secret, text)
        text = self._second(_WANDB, self._secret, text)
        text = self._buckets(text)
        text = self._url_users(text)
        text = self._named_secrets(text)
        text = self._emails(text)
        text = self._second(_HOME, self._user, text)
        text = self._second(_USER_KEY, self._user, text)
        text = self._known_users(text)
        text = self._addresses(text)
        return self._host_names(text)

    def redact(self, text: str) -> str:
        """`text` with stand-ins. Never raises; redacting the result again changes nothing."""
        # What one rule leaves can be another's: repeat until nothing changes (two rounds, the second to see that).
        for _ in range(_MAX_PASSES):
            redacted = self._once(text)
            if redacted == text:
                break
            text = redacted
        return text


def _mapped(value: T, change: Callable[[str], str]) -> T:
    """A copy of a tree of dataclasses, tuples and mappings with `change` applied to every plain string."""
    result: Any = value
    if type(value) is str:
        result = change(str(value))
    elif isinstance(value, tuple):
        result = tuple(_mapped(item, change) for item in value)
    elif isinstance(value, Mapping):
        result = {key: _mapped(item, change) for key, item in value.items()}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        result = type(value)(
            **{
                name: item if name in _OURS.get(type(value).__name__, ()) else _mapped(item, change)
                for name, item in fields.items()
            }
        )
    return result  # type: ignore[no-any-return]


# What no log can reach: identities of signatures, links between findings and the words of the contract.
_OURS: Mapping[str, frozenset[str]] = {
    "Finding": frozenset({"id", "name", "codes", "severity", "step_is", "explains", "explained_by"}),
    "RuledOut": frozenset({"name"}),
    "Coverage": frozenset({"kind"}),
    "Hint": frozenset({"name", "codes", "check", "supports"}),
}


def _capture(redactor: Redactor, key: str, value: str) -> str:
    """A captured value, whose name may say what its shape does not."""
    if key in _HOST_CAPTURES:
        return redactor.host(redactor.redact(value), everywhere=_telling(value))
    return redactor.redact(f"{key}={value}").removeprefix(f"{key}=")


def _node(redactor: Redactor, node: str | None) -> str | None:
    """A node is a host also where it is a word or two letters; what is no host name is text like any other."""
    return redactor.host(redactor.redact(node)) if node else node


def redact_diagnosis(diagnosis: Diagnosis, redactor: Redactor | None = None) -> Diagnosis:
    """The diagnosis with every string that a log can reach redacted; ranks, steps, times and slugs stay.

    Hosts are learnt from the nodes of findings and sources, and users from any path, before anything is replaced, so
    that a name is replaced also where it stands before the place that gives it away.
    """
    nodes = [f.node for f in diagnosis.findings if f.node] + [c.node for c in diagnosis.coverage if c.node]
    if redactor is None:
        redactor = Redactor(hosts=nodes)
    else:
        for node in nodes:
            redactor.host(node)
    learnt: dict[str, None] = {}
    _mapped(diagnosis, lambda text: learnt.setdefault(text) or text)
    for text in learnt:
        redactor.redact(text)
    for finding in diagnosis.findings:
        for key, value in finding.captures.items():
            _capture(redactor, key, value)
    known: dict[str, str] = {}

    def change(text: str) -> str:
        if text not in known:
            known[text] = redactor.redact(text)
        return known[text]

    redacted = _mapped(diagnosis, change)
    return dataclasses.replace(
        redacted,
        findings=tuple(
            dataclasses.replace(
                after,
                node=_node(redactor, before.node),
                captures={key: _capture(redactor, key, value) for key, value in before.captures.items()},
            )
            for before, after in zip(diagnosis.findings, redacted.findings, strict=True)
        ),
        coverage=tuple(
            dataclasses.replace(after, node=_node(redactor, before.node))
            for before, after in zip(diagnosis.coverage, redacted.coverage, strict=True)
        ),
        environment=tuple(
            dataclasses.replace(after, value=_capture(redactor, before.name, before.value))
            for before, after in zip(diagnosis.environment, redacted.environment, strict=True)
        ),
    )


def redact_tree(value: T, redactor: Redactor) -> T:
    """A copy of a tree of frozen dataclasses, tuples and mappings with every string in it redacted."""
    return _mapped(value, redactor.redact)
