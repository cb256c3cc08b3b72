"""Domain names outside of addresses, told from module paths, file names and attributes (`torch.io`, `train.py`)."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, telling
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.words import PUBLIC_HOSTS

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Country codes (ISO 3166-1 alpha-2 and `uk`, `eu`) without those that end names of files or are words of programs.
_COUNTRIES = (
    "ac ad ae af ag ai al am ao aq ar at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bv bw bz ca cd cf "
    "cg ch ci ck cl cm cn co cr cv cw cy cz de dj dk dm dz ec ee eg er es et eu fi fj fk fm fo fr ga gb gd ge gf gg "
    "gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu ie il im io iq ir it je jm jo jp ke kg kh ki km kn kp "
    "kr kw ky kz lb lc li lk lr ls lt lu lv ma mc me mg mh mk mn mo mp mq mr ms mt mu mv mw mx mz na ne nf ng ni nl "
    "no np nr nu nz om pa pe pg ph pk pn pr pw qa re ro ru rw sa sb sc sd se sg si sj sk sl sm sn sr ss sv sx sy sz "
    "tc td tg th tj tk tl tm tn tr tt tv tw tz ua ug uk us uy uz va vc ve vg vn vu wf ws ye yt za zm zw"
).split()
# Generic ones that companies, institutes and clusters use and that no attribute is called.
_GENERIC = "cloud cluster hpc tech xyz biz systems science institute university company digital solutions dev".split()
# Two kinds of domain: those that no module of a program is called, and those that are told from `threading.local` or
# `google.protobuf.internal` by a digit or hyphen in the name before them, or by what stands around them.
_FQDN = lazy(
    rf"(?<![\w.$-])(?:{_LABEL}\.){{1,8}}(?:(?:corp|lan|intranet|localdomain|ec2\.internal|compute\.internal|"
    rf"compute(?:-\d)?\.amazonaws\.com|cluster\.local|cloudapp\.net|cloudapp\.azure\.com|oraclevcn\.com|"
    rf"googleusercontent\.com|run\.app|modal\.run|hf\.space|ngrok(?:-free)?\.app|edu|gov|mil|ac\.[a-z]{{2}}|edu\.[a-z]{{2}})|(?P<open>com|net|org)"
    rf"|(?P<vague>internal|local|intra|private|home|svc)|(?P<place>{'|'.join((*_GENERIC, *_COUNTRIES))}))"
    rf"(?![\w-]|\.(?!(?:log|out|err|txt|json|jsonl)\b)\w|\()",
    re.ASCII | re.I,
)
_ASSIGNED = lazy(r"\s?=(?!=)|\s?\[", re.ASCII)  # `args.x-1.io = ...`: an attribute
# What programs write around a host: `host='x'`, `resolve host: x`, `server at "x"`, `x:443`, `x/team/image:v3`.
_HOST_BEFORE = lazy(
    r"(?i)(?:\bhost\w*|\bresolve|\bregistry(?: for)?|\bserver(?: at)?|\bendpoint|\blookup|\bimage|\bproxy|\bnot known|"
    r"\b(?:failed|refused|authorization failed|connect(?:ed|ing)?) (?:for|to)"
    r"|\bErrno -?\d+\] to)[\"']?[\s:=(\[]{0,3}[\"'`]?\Z",
    re.ASCII,
)
_PORT_AFTER = lazy(r":\d{2,5}(?![\d:.])|/[\w.-]+/[\w.-]+:\w", re.ASCII)
# First parts that services are called by.
_SERVICE = lazy(
    r"(?i)(?:api|vault|mlflow|registry|git|gitlab|proxy|mail|smtp|ldap|minio|wandb|artifactory|artifacts|docker|harbor|"
    r"nexus|jenkins|grafana|login|vpn|sso|ntp|dns|www|mirror|pypi|nfs|storage|tracking)\Z",
    re.ASCII,
)


# What customers' services are called by, whatever stands around the name.
_HOSTED = lazy(
    r"(?i)\.(?:azurecr\.io|azureml\.ms|supabase\.co|ngrok(?:-free)?\.(?:io|dev)|pinecone\.io|found\.io"
    r"|endpoints\.huggingface\.cloud)\Z",
    re.ASCII,
)
# Below these clouds name what a customer rents; what stays are their own sites and the bare names of services.
_RENTED = ("azure.com", "windows.net", "azure.net", "azurewebsites.net", "azurecr.io")
_OWN_PARTS = frozenset(
    "www management portal login docs learn dev ssh status feedback graph support azure ml ai openai services "
    "cognitiveservices cognitive search core blob dfs file queue table web vault managedhsm database servicebus redis "
    "cache documents batch kusto api inference models monitor monitoring applicationinsights secure adf notebooks "
    "studio oai preview packages azuremarketplace apps storage cosmos mysql postgres mariadb scm azmk8s cloudapp "
    "trafficmanager sts accounts communication eventgrid ods oms app container".split()
)


def _rented(lowered: str) -> bool:
    """Whether a name below a cloud's domain is a customer's: one of its parts is no service's."""
    if lowered.startswith("fs.azure."):
        return False  # a setting of Hadoop's, which ends in a host
    for domain in _RENTED:
        if lowered.endswith("." + domain):
            parts = lowered[: -len(domain) - 1].split(".")
            return not is_stand_in(parts[0]) and any(part not in _OWN_PARTS for part in parts)
    return False


def public(name: str) -> bool:
    """Whether a domain is a site that everybody reads."""
    lowered = name.lower().rstrip(".")
    return not _rented(lowered) and any(lowered == host or lowered.endswith("." + host) for host in PUBLIC_HOSTS)


def _in_a_country(match: re.Match[str], before: str) -> bool:
    """Whether what ends like a country's or generic domain is one, and no path of modules. before: the parts before."""
    domain = match["place"]
    labels = before.split(".")
    if not (domain.islower() or match[0].isupper()) or public(match[0]) or any(label.isdigit() for label in labels):
        return False
    if _ASSIGNED.match(match.string, match.end()):
        return False
    if _PORT_AFTER.match(match.string, match.end()):
        return len(before) >= 4
    if _HOST_BEFORE.search(match.string[max(0, match.start() - 32) : match.start()]):
        return True
    if len(labels) > 1:
        return telling(before.replace(".", "")) or _SERVICE.match(labels[0]) is not None
    return len(before) >= 4 and telling(before)


def domains(text: str, memory: Memory) -> str:
    """`text` without domain names."""

    def replace(match: re.Match[str]) -> str:
        name = match[0]
        group = match.lastgroup
        before = name[: match.start(group) - match.start() - 1] if group else name
        if group == "vague" and not re.search(r"[\d-]", before):
            return name  # threading.local
        # `self.net`, `policy.net`: an attribute, unless the name has more parts or a sign of a machine.
        if group == "open" and (
            public(name)
            or (match["open"].lower() != "com" and "." not in before and not telling(before))
            # `gan.G.net`: letters of both cases, as no host is written
            or (
                match["open"].lower() != "com"
                and not (name.islower() or name.isupper())
                and not telling(before.replace(".", ""))
            )
        ):
            return name
        if group == "place" and not _HOSTED.search(name) and not _in_a_country(match, before):
            return name
        return name if name.lower().startswith("www.") else memory.host(name)

    return _FQDN.sub(replace, text)
