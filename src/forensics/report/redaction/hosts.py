"""Machines: domain names, names that clouds and Kubernetes give, node lists, and places where programs print a host."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second, telling
from forensics.report.redaction.shapes import IS
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.words import ORDINARY, PUBLIC_HOSTS

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Two kinds of domain: those that no module of a program is called, and those that are told from `threading.local` or
# `google.protobuf.internal` by a digit or hyphen in the name before them.
_FQDN = lazy(
    rf"(?<![\w.-])(?:{_LABEL}\.){{1,8}}(?:(?:corp|lan|intranet|localdomain|ec2\.internal|compute\.internal|"
    rf"compute(?:-\d)?\.amazonaws\.com|cluster\.local|cloudapp\.net|cloudapp\.azure\.com|oraclevcn\.com|"
    rf"googleusercontent\.com|edu|gov|mil|ac\.[a-z]{{2}}|edu\.[a-z]{{2}})|(?P<open>com|net|org)"
    rf"|(?P<vague>internal|local|intra|private|home|svc))"
    rf"(?![\w-]|\.(?!(?:log|out|err|txt|json|jsonl)\b)\w|\()",
    re.ASCII | re.I,
)
# In an address any domain is one.
_URL_HOST = lazy(
    r"(?i)(\b(?:https?|wss?|tcp|udp|grpcs?|ssh|sftp|ftps?|nfs|redis|rediss|postgres(?:ql)?|mysql"
    r"|mongodb(?:\+srv)?|amqps?|kafka|"
    r"ray|env|etcd|ldaps?|smb|hdfs|jdbc:\w+)://(?:[^\s/@\"'<>]{1,200}@)?)([A-Za-z0-9][\w.-]{0,252})",
    re.ASCII,
)
_UNC = lazy(r"((?<![\w\\:])\\\\)([A-Za-z][\w.-]{1,62})(?=\\[\w$])", re.ASCII)
_EC2 = lazy(r"(?<![\w-])(?:ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}|i-[0-9a-f]{8,17})(?![\w-])", re.ASCII)
# GKE, AKS and EKS name nodes after cluster and pool; a Deployment's pods end in two words of a reduced alphabet
# (k8s.io/apimachinery util/rand: no vowels, and no digits that look like letters).
_CLOUD_NODE = lazy(
    r"(?<![\w-])(?:gke-[a-z0-9-]{4,60}|aks-[a-z0-9]{1,20}-\d{6,10}-vmss[0-9a-z]{3,8}|eks-[a-z0-9-]{6,60}"
    r"|inst-[a-z0-9-]{4,40})(?![\w-])",
    re.ASCII,
)
_POD = lazy(
    r"(?<![\w-])([a-z][a-z0-9-]{0,60}-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5})(?![\w-])",
    re.ASCII,
)
_POD_PLACE = lazy(
    rf"((?<![\w-])(?:\[pod/|pods?/|pod\s?[=:]\s?|pod [\"'`]|pod[_-]?name{IS}"
    r"|POD_NAME=|Successfully assigned [\w.-]{1,63}/))"
    r"([a-z0-9][a-z0-9.-]{2,250})",
    re.ASCII,
)
_POD_PATH = lazy(r"(/var/log/(?:pods|containers)/)([a-z0-9][\w.-]{2,250})", re.ASCII)
_NAMESPACE = lazy(
    rf"((?<![\w-])(?:--namespace[= ]|kubectl [^\n|;]{{0,60}}?-n |namespace{IS}"
    r"|namespaces/|POD_NAMESPACE=|Successfully assigned ))"
    r"([a-z0-9][a-z0-9-]{1,62})(?![\w.])",
    re.ASCII,
)
_PLAIN_NAMESPACE = frozenset({"default", "kube-system", "kube-public", "kubeflow", "none", "null"})

_NODE_LIST_PLACE = lazy(
    rf"(?i)((?:\b(?:slurm_)?(?:step_|job_|launch_)?(?:node_?list|nodes){IS}"
    r"|--nodelist[= ]|--exclude[= ]|\b-w )"
    r"\(?)([a-z][\w.-]{0,60}(?:\[[\d,-]{1,400}\])?(?:[\w.-]{0,40})(?:,[a-z][\w.-]{0,60}(?:\[[\d,-]{1,400}"
    r"\])?){0,200})(?=[\s)\"',;]|\Z)",
    re.ASCII,
)
# Padded numbers, or a name that is no word, tell `node[001-064]` and `dgx-a[1-8]` from a slice `x[0-7]` and a shape.
_NODE_LIST = lazy(
    r"(?<![\w.-])(?:[A-Za-z][A-Za-z0-9.-]{0,60}\[(?=[\d,-]*(?<!\d)0\d)"
    r"|[A-Za-z][A-Za-z0-9]{0,40}-[A-Za-z0-9.-]{0,40}\[(?=\d+-))"
    r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?){0,200}\](?![\w\[(=])",
    re.ASCII,
)
_NAME = r"[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*"
# Places in which programs print the name of a host, whatever it looks like; group 2 is the name.
_HOST_PLACES = tuple(
    lazy(pattern, re.ASCII | re.M)
    for pattern in (
        rf"(tfevents\.\d+\.)({_NAME}?)(?=\.\d+\.\d+|\.profile|\.v2|[\s\"']|\Z)",  # TensorBoard puts it into file names
        rf"((?:^|[\s\]>|]))({_NAME})(?=:\d+:\d+ (?:\[\d+\] )?NCCL )",
        rf"^([A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d )({_NAME})(?= (?:kernel|systemd|[\w./-]+\[\d+\]):)",  # syslog
        rf"^(\d{{4}}-\d\d-\d\dT[\d:.]{{8,20}}(?:Z|[+-]\d\d:?\d\d) )({_NAME})(?= (?:kernel|systemd|[\w./-]+\[\d+\]):)",
        rf"(\b(?:HOSTNAME|MASTER_ADDR|SLURMD_NODENAME|NODENAME|COMPUTERNAME|USERDOMAIN|SLURM_SUBMIT_HOST"
        rf"|SLURM_TOPOLOGY_ADDR|"
        rf"SLURM_LAUNCH_NODE_IPADDR|BatchHost|AllocNode:Sid|hostname|host_name|fqdn|master_addr|master-addr"
        rf"|main_process_ip|node_?name"
        rf"|nodeName|node_id|peer_host|server_name|head_node)\\?[\"']?(?:\s?[=:]\s?|\s)\\?[\"']?)({_NAME})(?![\w(\[])",
        rf"(\\?[\"'](?:host|node|machine|server|peer)\\?[\"']\s?:\s?\\?[\"'])({_NAME})(?=\\?[\"'])",  # JSON
        rf"(--(?:master[-_]addr|rdzv[-_]endpoint|main_process_ip|head[-_]node|hostname|host|hosts|address"
        rf"|local[-_]addr)[= ])({_NAME})",
        rf"(\b(?:rdzv_)?endpoint\s*[:=]\s*[\"']?)({_NAME})(?=:\d)",
        rf"(\bhost\s{{1,10}}: )({_NAME})",  # torchrun's summary of a failure
        rf"(\b(?:Local host|Host|Hostname|Node name|Node|System name):\s{{1,12}})({_NAME})(?=\s*$"
        rf")",  # Open MPI, collect_env
        rf"(\bsrun: error: )({_NAME})(?=: task)",
        rf"(\bON )({_NAME})(?= CANCELLED)",
        rf"(\bon node )({_NAME})",  # mpirun
        rf"(\bon host )({_NAME})",
        rf"(^\[)({_NAME})(?=:\d+\])",  # Open MPI: [host:pid]
        rf"(\bconnect(?:ed|ing)? to (?:\[|\(|host |peer |server "
        rf"|store )?[\"']?)({_NAME})(?=\]?[\"']?[:,] ?\d)",  # c10d sockets
        rf"(\baddresses of \()({_NAME})(?=, \d)",
        rf"(\b(?:client|server|listening on|bind(?:ing)? to|bound to|resolve|resolving|lookup"
        rf"|reach) \[?[\"']?)({_NAME})(?=\]?[\"']?:\d)",
        rf"(\bssh: connect to host )({_NAME})",
        rf"(\bssh: Could not resolve hostname )({_NAME})",
        rf"(\b(?:Linux|Darwin) )({_NAME})(?= \d+\.\d+)",  # uname -a
    )
)


def _public(name: str) -> bool:
    lowered = name.lower().rstrip(".")
    return any(lowered == host or lowered.endswith("." + host) for host in PUBLIC_HOSTS)


def _in_url(name: str, memory: Memory) -> str:
    if _public(name) or is_stand_in(name) or re.fullmatch(r"[\d.]+", name):
        return name
    if "." not in name:
        return memory.host(name, everywhere=telling(name))
    return memory.host(name)


def node_lists(text: str, memory: Memory) -> str:
    """`text` without lists of nodes as Slurm writes them (`gpu[001-064]`, `a[1-3],b7`)."""

    def place(match: re.Match[str]) -> str:
        name = match[2]
        if "[" in name or "," in name:
            return match[1] + memory.of("nodes", name)
        return match[1] + (memory.host(name) if telling(name) else name)

    if "[" in text:
        text = _NODE_LIST.sub(lambda match: memory.of("nodes", match[0]), text)
    return _NODE_LIST_PLACE.sub(place, text)


def pods(text: str, memory: Memory) -> str:
    """`text` without names of Kubernetes pods and namespaces."""

    def pod(name: str) -> str:
        bare = name.rstrip(".-")
        return memory.host(bare, everywhere=telling(bare)) + name[len(bare) :]

    if "pod" in text.lower() or "Successfully" in text:
        text = second(_POD_PATH, lambda name: memory.of("pod", name), text)
        text = second(_POD_PLACE, pod, text)
    text = _POD.sub(lambda match: memory.host(match[0]), text)
    if "amespace" in text or " -n " in text or "NAMESPACE" in text or "Successfully" in text:
        text = second(_NAMESPACE, lambda n: n if n in _PLAIN_NAMESPACE else memory.of("namespace", n), text)
    return text


def host_names(text: str, memory: Memory) -> str:
    """`text` without names of hosts: by shape, by place, and where they are known."""

    def placed(name: str) -> str:
        if name.lower() in ORDINARY or _public(name):
            return name
        return memory.host(name, everywhere=telling(name))

    def fqdn(match: re.Match[str]) -> str:
        name = match[0]
        if match["vague"] and not re.search(r"[\d-]", name[: match.start("vague") - match.start()]):
            return name  # threading.local
        if match["open"]:
            before = name[: match.start("open") - match.start() - 1]
            # `self.net`, `policy.net`: an attribute, unless the name has more parts or a sign of a machine.
            if _public(name) or (match["open"].lower() != "com" and "." not in before and not telling(before)):
                return name
        return name if name.lower().startswith("www.") else memory.host(name)

    if "://" in text:
        text = second(_URL_HOST, lambda name: _in_url(name, memory), text)
    if "\\\\" in text:
        text = second(_UNC, lambda name: memory.host(name), text)
    for pattern in _HOST_PLACES:
        text = second(pattern, placed, text)
    if "." in text:
        text = _FQDN.sub(fqdn, text)
    if "-" in text:
        text = _EC2.sub(lambda match: memory.host(match[0]), text)
        text = _CLOUD_NODE.sub(lambda match: memory.host(match[0]), text)
    return memory.known_hosts(text)
