"""Secrets that are told by their name (`password=...`, `--token ...`, `WANDB_KEY=...`)."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.keys import is_key
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.passes import is_password
from forensics.report.redaction.stand_ins import is_stand_in

_KEY = lazy(
    r"(?i)(?P<key>(?P<word>pass(?:word|wd|phrase)|passwd|pwd|passcode)|(?<![A-Za-z])pass|(?-i:(?<=[a-z])Pass)|"
    r"secret(?:s|[_-]?id|[ ._-]?(?:access[ ._-]?)?key)?|api[ _-]?key|"
    r"access[._-]?key(?:[_-]?id)?|account[_-]?key|account\.key\.[\w.-]{1,200}|(?:client|tls)[._-]key[._-]data"
    r"|client[._-]certificate[._-]data"
    r"|shared[_-]?access[_-]?(?:key|signature)|private[_-]?key|auth[_-]?key|"
    r"(?:encryption|license|signing|hmac|consumer|deploy|webhook|jwt)[_-]?key|(?:store|key)pass|credentials?"
    r"|client[_-]?secret|token|"
    r"x-amz-security-token|sig(?:nature)?)"
    # Also far apart, as in columns, and with the dots of Megatron's list of arguments.
    r"(?P<sep>\\?[\"']?\]?[ \t]{0,40}(?::=|=>|[=:](?![=:]))[ \t]{0,40}(?:b(?=[\"']))?|[ \t]\.{3,60}[ \t](?=\S)"
    r"|[ \t]{1,3})"
    r"(?:(?P<escaped>\\[\"'])(?P<value1>(?:(?!(?P=escaped))[^\n]){1,1000})"  # \"password\": \"hunter2\"
    r"|(?P<quote>[\"'])(?P<value2>(?:\\.|(?!(?P=quote))[^\\\n]){1,1000})(?=(?P=quote)|\Z)"
    # A password may hold what otherwise ends a value, unless a name and its value follow.
    r"|(?P<value3>[^\s\0,;&\"'<>()\[\]{}|\\]{1,1000}(?(word)(?:[,;&]+(?![A-Za-z_][\w.-]{0,40}(?: Id)?[=:])"
    r"[^\s\0,;&\"'<>()\[\]{}|\\]{1,200}){0,10})))",
    re.ASCII,
)
# These words have other uses than to name a secret: they need more than a name and a value.
_WEAK_KEYS = frozenset({"token", "secrets", "credential", "credentials"})
# Language models speak of tokens all day: these are counts, special tokens and settings, and no secrets.
_NO_SECRET_BEFORE = lazy(
    r"(?i)(?<![A-Za-z])(?:pad|eos|bos|unk|sep|cls|mask|special|max|min|num|n|image|img|per|next|stop|end"
    r"|start|begin|first|last|new|"
    r"add|skip|audio|video|vision|think|tool|extra|prev|current|cur|each|every|total|avg|mean|prompt|input|output|"
    r"generated|a|the|of|unexpected|invalid|unknown|this|that|no|by|ms|forced|decoder|encoder|placeholder|"
    r"model|draft|target|global|sample|bad|second|sequence|seq|time|label|ignore)[ _.-]?\Z",
    re.ASCII,
)
_NO_SECRET = lazy(
    r"(?i)(?:true|false|none|null|nil|undefined|unset|empty|yes|no|set|not|missing|required|invalid|\*+|x{3,}|"
    r"\.{3,}|<[^>]*>?|\[[^\]]*\]?|[$%{(].*|\\[nt].*|str|int|bool|os\.\S*|args\.\S*|self\.\S*|"
    r"redacted\S*)\Z",
    re.ASCII,
)
# An exception's name, and its message from the first word on: `InvalidAPIKey: The given API key ...`.
_EXCEPTION_BEFORE = lazy(r"(?:Invalid|Missing|Expired|Revoked|Unknown|Wrong|Bad|No)\Z", re.ASCII)
_SENTENCE = lazy(r"[A-Z][a-z]{0,11}(?= [A-Za-z])", re.ASCII)
# Variables of an environment whose names end as those of secrets do. A comma ends the value only before another one.
_ENVIRONMENT = lazy(
    r"(?P<head>(?<![A-Za-z0-9])(?P<name>[A-Z][A-Z0-9_]{0,60}_(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD"
    r"|PASSPHRASE|PWD|CREDENTIALS?|AUTH"
    r"|PAT|PW|DSN|COOKIE|SALT|WEBHOOK(?:_URL)?|KEY_ID|KEYS|TOKENS|SECRETS)"
    r"|SSHPASS|SMBPASS|PGPASS|DBPASS|FTPPASS|(?:[A-Z][A-Z0-9_]{0,40}_)?(?:SECRET|PASSWORD|PASSWD|PASSPHRASE)_[A-Z0-9_]{0,40}"
    r"(?<!_FILE)(?<!_PATH)(?<!_DIR)(?<!_NAME)(?<!_LENGTH)(?<!_URL)(?<!_HASH_ALGORITHM))"
    r"\\?[\"']?\]?[ \t]{0,2}[=:](?!=)[ \t]{0,2}(?:b(?=[\"']))?\\?)"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\n]{1,1000})|(?P<plain>[^\s\0\"',]{1,1000}(?:,(?![A-Za-z_][\w.-]*=)"
    r"[^\s\0\"',]{1,1000}){0,20}))",
    re.ASCII,
)
_KEY_OF_DATA = lazy(
    r"(?:PRIMARY|FOREIGN|SORT|INDEX|IMAGE|TEXT|INPUT|OUTPUT|LABEL|TARGET|CACHE|DICT|JSON|BUCKET|GROUP"
    r"|DATA|FEATURE|MISSING"
    r"|UNEXPECTED|PUBLIC|STATE|PAD|EOS|BOS|UNK|SEP|CLS|MASK|SPECIAL|MAX|MIN|NUM|NEXT|STOP|FORCE|USE"
    r"|NO)_(?:\w+_)?(?:KEYS?|TOKENS?|AUTH)\Z",
    re.ASCII,
)
# Other names that end in `key`, also `key` below the name of a service: `wandb_key=`, `--hf-key x`, `api.key: x`.
_ANY_KEY = lazy(
    r"(?P<head>(?<![A-Za-z0-9_.-])(?P<option>--?)?(?P<prefix>[A-Za-z][\w.-]{0,80}?)(?:[_./-](?:[Kk]ey|KEY)|"
    r"(?<=[a-z])Key)"
    r"(?:(?P<is>\\?[\"']?\]?[ \t]{0,3}[=:](?![=:])[ \t]{0,3}(?:b(?=[\"']))?)|(?(option)[ \t]{1,3}|(?!)))\\?)"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\\\n]{1,1000})|(?P<plain>[^\s\0,;&\"'<>()\[\]{}|\\]{1,1000}))",
    re.ASCII,
)
# What sets a name to the word behind it: csh (`setenv DB_PASSWORD x`), fish (`set -gx`), Windows (`setx`),
# Docker's files (`ENV X v`), notebooks (`%env X v`), PowerShell
# (`Set-Item Env:X`), and `config set`, `configure set`, `remote modify NAME` of aws, npm, pip, dvc, git and others.
_SET = lazy(
    r"(?P<head>\b(?:setenv|ENV|ARG|(?<=%)env|setx(?:[ \t]+/[A-Za-z])*|set[ \t]+-[A-Za-z]{1,6}|set[ \t]+--export"
    r"|[Ss]et-(?:Item|Variable|Content)(?:[ \t]+-\w+)*|config(?:ure)?[ \t]+set(?:[ \t]+--[\w-]+){0,3}|(?:git|npm|pip"
    r"|conda)[ \t]+config(?:[ \t]+--[\w-]+){0,3}"
    r"|remote[ \t]+modify(?:[ \t]+--[\w-]+){0,3}[ \t]+[\w.-]{1,60}"
    r"|secrets?[ \t]+(?:set|create|put))[ \t]+[\"']?(?:[Ee]nv:\\?)?(?!set\b|config\b)"
    r"(?P<name>[A-Za-z_][\w.-]{1,80})[\"']?[ \t]+"
    r"(?:-[Vv]alue[ \t]+|--body[ \t]+)?)"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\n]{1,1000})|(?P<plain>[^\s\"';-][^\s\"';]{0,1000}))",
    re.ASCII,
)
# The same as a call: `SetEnvironmentVariable("X", "v")`, `os.putenv('X', 'v')`, `environ.setdefault('X', 'v')`.
_SET_BY_CALL = lazy(
    r"(?P<head>(?:[Ss]et|[Pp]ut)\w{0,40}\(\s?[\"'](?P<name>[A-Za-z_][\w.-]{1,80})[\"'],\s?)"
    r"(?P<quote>[\"'])(?P<quoted>[^\"'\n]{1,1000})",
    re.ASCII,
)
# Fields of HTTP headers whose name ends so: `X-Vault-Token`, `PRIVATE-TOKEN`, `X-Auth-Key`.
_HEADER = lazy(
    r"(?i)((?:(?<![\w-])(?:x-[\w-]{0,60}?|(?:private|job|deploy|auth|access|api|session|csrf|refresh|id)-)"
    r"(?:token|key|secret|signature|password|credential)s?"
    r"|(?-i:(?<![\w-])(?:[A-Z][A-Za-z0-9]{0,20}-){1,5}(?:Token|Key|Secret|Signature|Password)))"
    r"\\?[\"']?\s?:\s{0,3}\\?[\"']?)([^\s\"'\\,;<>{}\[\]]{4,})",
    re.ASCII,
)

_NETRC = lazy(r"(\blogin\s+)(\S{1,100})(\s+(?:account\s+\S{1,100}\s+)?password\s+)(\S{1,300})", re.ASCII)
# "the password is X": prose says much about passwords, so that an unquoted one needs a digit.
_SAID = lazy(
    r"(?i)(\b(?:password|passwd|passphrase|passcode)(?:\s(?:for|of)\s[^\n]{1,120}?)?\s{1,3}(?:is|was)(?:\s?:)?\s{1,3})"
    r"(?:[\"'](?P<quoted>[^\"'\n]{3,200})(?=[\"'])|(?P<plain>(?=[^\s\"']*\d)[^\s,;\"'<>()]{5,200}))",
    re.ASCII,
)
# A mapping of secrets on one line, as Python and YAML print it: `secrets: {wandb: abc}`.
_MAPPING = lazy(
    r"(?i)(\b(?:secrets|credentials|passwords|api_?keys|cookies|cookie_?jar)\\?[\"']?\s?[:=]\s?\{)"
    r"([^{}\n]{1,2000})",
    re.ASCII,
)
# An entry of a group of secrets, as Hydra overrides one: `+secrets.hf=x`, `++auth.token=x`.
_OF_GROUP = lazy(
    r"(?i)((?<![\w./-])(?:\+{1,2}|~)?(?:[\w-]{1,40}\.){0,4}(?:secrets|credentials|passwords|api_?keys)\.[\w.-]{1,60}=[\"']?)"
    r"([^\s,;\"'()\[\]{}]{4,1000})",
    re.ASCII,
)
# Passwords in other languages than English, and those of the words that are written in ASCII.
_ABROAD_ASCII = tuple("passwort kennwort passe senha wachtwoord passord adgangskode salasana heslo parola".split())
_ABROAD = lazy(
    r"(?i)((?<!\w)(?:passwort|kennwort|mot de passe|contrase\u00f1a|senha|palavra-passe"
    r"|\u043f\u0430\u0440\u043e\u043b\u044c"
    r"|has\u0142o|wachtwoord|l\u00f6senord|passord|adgangskode|salasana|heslo|jelsz\u00f3|\u015fifre|parola"
    r"|\u5bc6\u7801|\u5bc6\u78bc|\u53e3\u4ee4|\u30d1\u30b9\u30ef\u30fc\u30c9|\ube44\ubc00\ubc88\ud638)\s?[:=\uff1a\uff1d]\s?[\"']?)"
    r"(?![\s\"'*])([^\s\"',;]{3,200})"
)
_PAIR = lazy(r"([\w.-]{1,80}\\?[\"']?\s?[:=]\s?\\?[\"']?)([^\s\"'\\,{}]{4,1000})", re.ASCII)


def _said(text: str, memory: Memory) -> str:
    def replace(match: re.Match[str]) -> str:
        group = "plain" if match["plain"] is not None else "quoted"
        value = match[group].rstrip(".") if group == "plain" else match[group]
        if _NO_SECRET.match(value) or is_stand_in(value):
            return match[0]
        at = match.start(group) - match.start()
        return match[0][:at] + memory.secret(value) + match[0][at + len(value) :]

    return _SAID.sub(replace, text)


def _mappings(text: str, memory: Memory) -> str:
    def secret(value: str) -> str:
        return value if _NO_SECRET.match(value) or value.isdigit() else memory.secret(value)

    return second(_MAPPING, lambda pairs: second(_PAIR, secret, pairs), text)


def _environment(text: str, memory: Memory) -> str:
    def replace(match: re.Match[str]) -> str:
        value = match["quoted"] or match["plain"]
        name = match["name"]
        if _NO_SECRET.match(value) or is_stand_in(value) or _KEY_OF_DATA.match(name):
            return match[0]
        if match["plain"] and "]" in match["head"]:
            return match[0]  # code: os.environ["HF_TOKEN"] = token
        if name.endswith("_PASS") and not is_password(name[:-4], "pass", "=", value, quoted=False):
            return match[0]
        if name.endswith(("_KEY", "_KEYS", "_TOKEN", "_TOKENS", "_AUTH")) and (value.isdigit() or len(value) < 4):
            return match[0]
        return match["head"] + (match["quote"] or "") + memory.secret(value)

    return _ENVIRONMENT.sub(replace, text)


def _assigned(text: str, memory: Memory) -> str:
    def replace(match: re.Match[str]) -> str:
        key, sep, quoted = match["key"].lower(), match["sep"], match["value3"] is None
        group = "value1" if match["escaped"] else "value2" if match["quote"] else "value3"
        value = match[group]
        before = text[max(0, match.start() - 24) : match.start()]
        secret = not (_NO_SECRET.match(value) or is_stand_in(value) or value.startswith("-"))
        if key in ("sig", "signature"):  # of a signed URL or request, and not "sig=0.5"
            secret = secret and (before.endswith(("?", "&")) or bool(re.match(r"[0-9a-f]{32}", value)))
        elif key == "pass":
            secret = secret and is_password(before, match["key"], sep, value, quoted=quoted)
            if not quoted and text.startswith("[", match.end()):
                secret = False  # a line of code: pass = passes[0]
        elif key == "pwd":  # also the working directory
            secret = secret and not re.match(r"[/~.]|[A-Za-z]:", value)
        elif key in _WEAK_KEYS:
            # "Unexpected token: foo", "pad_token=<pad>", "token=17"
            telling = quoted or ":" not in sep or (len(value) >= 8 and any(c.isdigit() for c in value))
            secret = secret and telling and not value.isdigit() and not _NO_SECRET_BEFORE.search(before)
        if not quoted and "]" in sep:
            secret = False  # a line of code that assigns an expression: kwargs["token"] = token
        if not quoted and text.startswith("(", match.end()) and re.fullmatch(r"[A-Za-z_][\w.]*", value):
            secret = False  # a call in a traceback's line of code: authkey=current_process().authkey
        if not quoted and sep == ": " and _EXCEPTION_BEFORE.search(before):
            sentence = _SENTENCE.match(text, match.start(group))
            secret = secret and not (sentence is not None and sentence[0] == value)
        if sep.isspace():  # prose, unless it is an option: --password hunter2
            secret = secret and bool(re.search(r"(?:^|[\s\"'\[,])--?[\w-]*\Z", before))
        if not secret:
            return match[0]
        at = match.start(group) - match.start()
        return match[0][:at] + memory.secret(value) + match[0][at + len(value) :]

    return _KEY.sub(replace, text)


def _any_key(text: str, memory: Memory) -> str:
    def replace(match: re.Match[str]) -> str:
        value = match["quoted"] or match["plain"]
        call = match["plain"] and (match.string.startswith("(", match.end()) or "]" in (match["is"] or ""))
        if call or _NO_SECRET.match(value) or is_stand_in(value) or value.startswith("-"):
            return match[0]
        if not is_key(match["prefix"], value):
            return match[0]
        return match["head"] + (match["quote"] or "") + memory.secret(value)

    return _ANY_KEY.sub(replace, text)


def _set(text: str, memory: Memory) -> str:
    def replace(match: re.Match[str]) -> str:
        value = match["quoted"] or match["plain"]
        if not is_secret(match["name"], value):
            return match[0]
        return match["head"] + (match["quote"] or "") + memory.secret(value)

    return _SET_BY_CALL.sub(replace, _SET.sub(replace, text))


def named_secrets(text: str, memory: Memory) -> str:
    """`text` without values whose names say that they are secret."""
    if "login" in text:
        text = _NETRC.sub(lambda m: m[1] + memory.user(m[2]) + m[3] + memory.secret(m[4]), text)
    if "{" in text:
        text = _mappings(text, memory)
    if (
        "et" in text
        or "env" in text
        or "ENV" in text
        or "ARG" in text
        or "modify" in text
        or "PUT" in text
        or "put" in text
        or "config " in text
    ):
        text = _set(text, memory)
    if "-" in text and ":" in text:
        text = second(_HEADER, lambda value: value if _NO_SECRET.match(value) else memory.secret(value), text)
    text = _assigned(_environment(text, memory), memory)
    if "key" in text or "Key" in text or "KEY" in text:
        text = _any_key(text, memory)
    if any(f"{group}." in text for group in ("secrets", "credentials", "passwords", "keys")):
        text = second(
            _OF_GROUP, lambda value: value if _NO_SECRET.match(value) or value.isdigit() else memory.secret(value), text
        )
    if not text.isascii() or any(word in text.lower() for word in _ABROAD_ASCII):
        text = second(_ABROAD, lambda value: value if _NO_SECRET.match(value) else memory.secret(value), text)
    return _said(text, memory)


def is_secret(name: str, value: str) -> bool:
    """Whether a setting of that name and value holds a secret."""
    return named_secrets(f"{name}={value}", Memory()).startswith(f"{name}=secret-")


def called_secret(name: str, value: str) -> bool:
    """Whether the value of that name, an option's too, is a secret; the value may be several words."""
    value = value.replace('"', "'")
    return is_secret(name.lstrip("-"), value) or (" " in value and is_secret(name.lstrip("-"), value.split()[0]))
