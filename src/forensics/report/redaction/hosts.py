"""Machines: hosts of addresses, names that clouds and Kubernetes give, node lists, and all that tells a host."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.domains import domains, public
from forensics.report.redaction.host_errors import DOMAINS, ERRORS, HOSTS_LINES, with_ports
from forensics.report.redaction.host_places import DICTS, IN_DICTS, LISTS, NAME, PLACES, ROWS
from forensics.report.redaction.memory import Memory, second, telling
from forensics.report.redaction.shapes import IS
from forensics.report.redaction.stand_ins import ROLES, is_stand_in
from forensics.report.redaction.words import NO_HOSTS, ORDINARY

# In an address any domain is one.
_URL_HOST = lazy(
    r"(?i)(\b(?:https?|wss?|tcp|udp|grpcs?|ssh|sftp|ftps?|nfs|redis|rediss|postgres(?:ql)?|mysql"
    r"|mongodb(?:\+srv)?|amqps?|kafka|"
    r"ray|spark|env|etcd|ldaps?|smb|hdfs|jdbc:\w+)(?:://|%3A%2F%2F)(?:[^\s/@\"'<>]{1,200}@)?)([A-Za-z0-9][\w.-]{0,252})",
    re.ASCII,
)
# Where somebody logs in, whatever the scheme is: `clickhouse+native://user:secret@h/db`; not a container of Azure's.
_URL_LOGIN = lazy(
    r"(\b(?!abfs|wasb|oci:)[a-z][a-z0-9+.-]{1,30}://(?:[^\s/@:\"'<>]{0,100}:)[^\s/@\"'<>]{1,200}@)([A-Za-z0-9][\w.-]{0,252})",
    re.ASCII,
)
_UNC = lazy(r"((?<![\w\\:])\\\\)([A-Za-z][\w.-]{1,62})(?=\\[\w$])", re.ASCII)
_EC2 = lazy(r"(?<![\w-])(?:ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}|i-[0-9a-f]{8,17})(?![\w-])", re.ASCII)
# GKE, AKS and EKS name nodes after cluster and pool; a Deployment's pods end in two words of a reduced alphabet
# (k8s.io/apimachinery util/rand: no vowels, and no digits that look like letters).
_CLOUD_NODE = lazy(
    r"(?<![\w-])(?:(?<!google\.com/)gke-[a-z0-9-]{4,60}|aks-[a-z0-9]{1,20}-\d{6,10}-vmss[0-9a-z]{3,8}|eks-[a-z0-9-]{6,60}"
    r"|t1v-n-[0-9a-f]{6,12}-w-\d{1,5}|tvmp?s?_[0-9a-f]{16,64}_[pd]"  # Google's TPUs, Azure Batch
    r"|inst-[a-z0-9-]{4,40}|cmle-training-[a-z0-9-]{4,60})(?![\w-])",
    re.ASCII,
)
# What macOS calls a machine after its owner, and Windows by default.
_PERSONS = lazy(
    r"(?<![\w-])(?:[A-Za-z][\w-]{0,40}s-(?:MacBook|iMac|Mac|Mac-?mini|Mac-?Studio)(?:-(?:Pro|Air|Studio|mini))?(?:-\d{1,2})?"
    r"|(?:MacBook|Mac)-(?:Pro|Air|mini|Studio)-(?:von|de|di|van|av)-[\w-]{2,40}"
    r"|(?:DESKTOP|LAPTOP|WIN)-(?=[A-Z]*\d)[A-Z0-9]{7,11})(?![\w-])",
    re.ASCII,
)
_POD = lazy(
    r"(?<![\w-])([a-z][a-z0-9-]{0,60}-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5})(?![\w-])",
    re.ASCII,
)
# Jobs of Kubernetes call their pods after themselves, a role and numbers: `lora-vega-worker-3` (Kubeflow's operators),
# `lora-vega-launcher-x7x7x` (MPI), `lora-vega-node-0-0-x7x7x` (JobSet). Of one word before the role it may be a thread.
_ROLE_POD = lazy(
    rf"(?<![\w./-])(?:(?P<job>[a-z][a-z0-9]*(?:-[a-z0-9]+){{1,12}})-(?:{ROLES})-\d{{1,5}}"
    r"|[a-z][a-z0-9-]{2,50}-launcher-[bcdfghjklmnpqrstvwxz2456789]{5}"
    r"|[a-z][a-z0-9-]{2,50}-\d{1,5}-\d{1,5}-(?=\d*[a-z])[bcdfghjklmnpqrstvwxz2456789]{5})(?![\w-])",
    re.ASCII,
)
_THREADS = frozenset(
    "actor async background cache checkpoint core cpu data dataloader dataset dist engine executor gpu grpc host "
    "http io kv llm load loader local log logging main memory model mp node parallel param parameter pin pipeline "
    "pool prefetch process queue rank ray read reader rollout rpc sampler save stage tensor the thread torch "
    "train trainer worker write writer".split()
)
_POD_PLACE = lazy(
    rf"((?<![\w-])(?:\[pod/|pods?/|[Pp]ods? (?=[a-z][a-z0-9.-]*-[a-z]*\d+(?![\w.-]))"
    rf"|pod{IS}|pods? \\?[\"'`]|[Pp]od[ ._-]?[Nn]ame{IS}"
    r"|POD(?:_NAME)?=|Successfully assigned [\w.-]{1,63}/))"
    r"([a-z0-9][a-z0-9.-]{2,250})",
    re.ASCII,
)
# The kubelet: `in pod NAME_NAMESPACE(UID)`, `{kind: Pod, name: NAME}`, labels of DCGM.
_POD_OF_KUBELET = lazy(
    r"(\bpods? [\"']?)([a-z0-9][a-z0-9.-]{2,250})_([a-z0-9][a-z0-9-]{1,62})(?=\((?:[0-9a-f-]{8,36}|uuid-\d{1,9})\))",
    re.ASCII,
)
# Where a sentence or a field of a log names both: `Evicted pod NAMESPACE/NAME`, `pod="NAMESPACE/NAME"`.
_POD_IN_NAMESPACE = lazy(
    r"((?<![\w/-])[Pp]ods?(?:[ =:]{1,2}|: )\\?[\"'`]?)([a-z0-9][a-z0-9-]{1,62})/"
    r"((?=[a-z0-9.]*[-\d])[a-z0-9][a-z0-9.-]{2,250})(?![\w/])",
    re.ASCII,
)
# The kubelet's logs: POD_NAMESPACE_CONTAINER-ID.log
KUBELETS_LOG = lazy(
    r"(?<![\w.-])([a-z0-9][a-z0-9.-]{1,250})_([a-z0-9][a-z0-9-]{1,62})_([a-z0-9-]{1,62}-[0-9a-f]{64}(?=\.log\b))",
    re.ASCII,
)
# Whose pod it is: `Controlled By:  PyTorchJob/NAME`, and labels of operators and of Kubernetes' own jobs.
_JOB = lazy(
    r"(\bControlled By:[ \t]+[A-Z]\w{2,40}/|(?<![\w-])job-name\\?[\"']?[=:]\s?\\?[\"']?)([a-z0-9][a-z0-9.-]{2,62})",
    re.ASCII,
)
_POD_KIND = lazy(
    r"(\bkind\\?[\"']?:\s?\\?[\"']?Pod\\?[\"']?,\s?\\?[\"']?name\\?[\"']?:\s?\\?[\"']?)([a-z0-9][a-z0-9.-]{2,250})",
    re.ASCII,
)
# `kubectl logs NAME`, `kubectl exec -it NAME -- x`
_POD_OF_COMMAND = lazy(
    r"(\bkubectl(?: -{1,2}[\w-]+[= ]\S{1,80}){0,4} "
    r"(?:(?:logs|exec|attach|debug|port-forward)|(?:get|describe|delete|wait|top) pods?)"
    r"(?: -{1,2}[\w-]+(?:=\S{1,80})?| -[nc] \S{1,80}){0,6} )([a-z0-9](?=[a-z0-9.-]*-)[a-z0-9.-]{2,250})",
    re.ASCII,
)
_POD_PATH = lazy(r"(/var/log/(?:pods|containers)/)([a-z0-9][\w.-]{2,250})", re.ASCII)
_NAMESPACE = lazy(
    rf"((?<![\w-])(?:--namespace[= ]|kubectl [^\n|;]{{0,60}}?-n |namespace{IS}"
    r"|Namespace:[ \t]{1,20}|namespaces/|POD_NAMESPACE=|Successfully assigned |\bnamespaces? \\?[\"']"
    r"|\bin (?:the )?namespace (?=[a-z0-9]+-)"
    r"|system:serviceaccounts?:))"
    r"([a-z0-9][a-z0-9-]{1,62})(?![\w.])",
    re.ASCII,
)
_PLAIN_NAMESPACE = frozenset({"default", "kube-system", "kube-public", "kubeflow", "none", "null"})

_IN_SPEC = lazy(rf"(\\?[\"'])({NAME})(?=:\d{{2,5}}\\?[\"'])", re.ASCII)  # of TensorFlow's clusters
_IN_LIST = lazy(rf"(?:(?<=\A)|(?<=,)|(?<=, )){NAME}", re.ASCII)
_IN_ROW = lazy(rf"(?:(?<=\A)|(?<=[ \t])){NAME}", re.ASCII)
# DeepSpeed hands its launcher the hosts as JSON in base64: `--world_info=eyJub2RlMSI6IFswLCAxXX0=`.
_WORLD_INFO = lazy(r"(--world_info[= ])([A-Za-z0-9+/_-]{8,}={0,2})(?![\w+/=])", re.ASCII)


def _in_url(name: str, memory: Memory) -> str:
    if public(name) or is_stand_in(name) or re.fullmatch(r"[\d.]+", name):
        return name
    if "." not in name:
        return memory.host(name, everywhere=telling(name))
    return memory.host(name)


def _of_a_job(match: re.Match[str], memory: Memory) -> str:
    threads = match["job"] is not None and all(part in _THREADS or part.isdigit() for part in match["job"].split("-"))
    return match[0] if threads else memory.host(match[0])


def pods(text: str, memory: Memory) -> str:
    """`text` without names of Kubernetes pods and namespaces."""

    def pod(name: str) -> str:
        bare = name.rstrip(".-")
        if bare in NO_HOSTS:
            return name
        return memory.host(bare, everywhere=telling(bare)) + name[len(bare) :]

    def namespace(name: str) -> str:
        return name if name in _PLAIN_NAMESPACE else memory.of("namespace", name)

    if ".log" in text and "_" in text:
        text = KUBELETS_LOG.sub(lambda match: f"{pod(match[1])}_{namespace(match[2])}_{match[3]}", text)
    if "od" in text and "/" in text:
        text = _POD_IN_NAMESPACE.sub(lambda match: f"{match[1]}{namespace(match[2])}/{pod(match[3])}", text)
    if "pod" in text.lower() or "Successfully" in text:
        text = _POD_OF_KUBELET.sub(lambda match: f"{match[1]}{pod(match[2])}_{memory.of('namespace', match[3])}", text)
        text = second(_POD_KIND, pod, text)
        text = second(_POD_PATH, lambda name: memory.of("pod", name), text)
        text = second(_POD_PLACE, pod, text)
    if "kubectl" in text:
        text = second(_POD_OF_COMMAND, pod, text)
    if "Controlled By" in text or "job-name" in text:
        text = second(_JOB, lambda name: memory.of("job", name), text)
    text = _POD.sub(lambda match: memory.host(match[0]), text)
    if "-" in text:
        text = _ROLE_POD.sub(lambda match: _of_a_job(match, memory), text)
    if "amespace" in text or "system:serv" in text or " -n " in text or "NAMESPACE" in text or "Successfully" in text:
        text = second(_NAMESPACE, namespace, text)
    return text


def _in_places(text: str, memory: Memory) -> str:
    def placed(name: str) -> str:
        if name.lower() in ORDINARY or name.lower() in NO_HOSTS or public(name):
            return name
        return memory.host(name, everywhere=telling(name))

    def listed(names: str) -> str:
        return _IN_LIST.sub(lambda match: placed(match[0]), names)

    def keys(pairs: str) -> str:
        return second(IN_DICTS, placed, pairs)

    def row(names: str) -> str:
        return _IN_ROW.sub(lambda match: placed(match[0]), names)

    for places, make in ((PLACES, placed), (ERRORS, placed), (LISTS, listed), (ROWS, row), (DICTS, keys)):
        for pattern, words in places:
            if not words or any(word in text for word in words):
                text = second(pattern, make, text)
    return second(HOSTS_LINES, row, text) if "." in text or "ip-" in text else text


def host_names(text: str, memory: Memory) -> str:
    """`text` without names of hosts: by shape, by place, and where they are known."""
    if "://" in text or "%3A%2F%2F" in text:
        text = second(_URL_HOST, lambda name: _in_url(name, memory), text)
        text = second(_URL_LOGIN, lambda name: _in_url(name, memory), text)
    if "\\\\" in text:
        text = second(_UNC, lambda name: memory.host(name), text)
    if "--world_info" in text:
        text = second(_WORLD_INFO, lambda names: memory.of("nodes", names), text)
    if "TF_CONFIG" in text or "ClusterSpec" in text:
        text = second(_IN_SPEC, lambda name: memory.host(name, everywhere=telling(name)), text)
    if "domain=" in text:
        text = second(DOMAINS, memory.account, text)
    text = with_ports(_in_places(text, memory), memory)
    if "." in text:
        text = domains(text, memory)
    if "-" in text or "tvm" in text:
        text = _EC2.sub(lambda match: memory.host(match[0]), text)
        text = _PERSONS.sub(lambda match: memory.host(match[0]), text)
        text = _CLOUD_NODE.sub(lambda match: memory.host(match[0]), text)
    return memory.known_hosts(text)
