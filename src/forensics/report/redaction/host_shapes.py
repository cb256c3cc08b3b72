"""What a word looks like that may be a host's name, where what stands around it is no proof."""

from __future__ import annotations

import re

from forensics.host_words import NUMBERED, WITHIN
from forensics.patterns import lazy
from forensics.report.redaction.words import NO_HOSTS, ORDINARY, TERMS

# Interfaces, disks, architectures, processors, standards, libraries, files' ends, parts of data sets and types of
# machines that clouds rent, all of which have numbers as hosts have.
_COUNTED = lazy(
    rf"(?i:{NUMBERED}|{WITHIN}"
    r"|(?:eth|en[ops]|ib[ps]?|bond|lo|mlx|hsn|docker|veth|ens|eno|wlan|irdma|efa|rdmap|nvme|sd[a-z]|md|dm|tty|fd|pts?)[-_]?\d"
    r"|(?:x|i)\d?86|win(?:32|64)|linux(?:32|64)|amd64|arm(?:64|v\d)|aarch64|sm[-_]?\d|gfx\d|cu\d{2,3}|rocm\d|py\d|python\d"
    r"|cp\d{2,3}|pp\d|h?utf\d|ipv\d|http\d|tls\d|sha\d|md\d|base\d|s3|ec2|k8s|c10d?|h5py|boto\d|urllib\d|lib2to3|jinja\d"
    r"|psycopg\d|s3fs|grpc\d|cudnn\d|nccl\d|zero\d|nf4|port\d|tcp\d|udp\d|ubuntu\d|debian\d|rhel\d|centos\d|sles\d|rocky\d"
    r"|ml\.|[a-z]\d{1,2}[a-z]{0,4}\.(?:\d{0,3}x?large|metal|nano|micro|small|medium)|[a-z]\d?-(?:highgpu|megagpu|ultragpu|edgegpu"
    r"|standard|highmem|highcpu)|standard[-_]|ct\d|tpu|v\d+(?:[a-z]{1,6})?(?:pod)?-\d|v\d+[a-z]{0,2}\Z|t5|opt-|resnet|resnext|vit-"
    r"|lora|torch\d|tensorflow\d|jax\d|ray\d|[ahbvl]\d{2,3}s?x\d|imagenet|cifar|mnist|wikitext|coco\d|oom\d|ckpt|checkpoint"
    r"|yolo|phi-?\d|gemma|mistral|mixtral|pythia|falcon|bloom|deepseek|yi-|mamba|clip|dino|swin|unet|[kpm]\d{2,3}\Z|[a-z]\d?\Z"
    r"|nvidia-[ahbvlt]\d{1,3}s?(?:-(?:sxm|pcie|nvl|\d{2,3}gb)\w{0,3}){0,3}\Z|tesla-[kmptv]\d{1,3}\Z|(?:intel-)?xeon-?\d{4}\w?\Z|(?:amd-)?epyc-?\d{4}\w?\Z|gaudi-?\d\Z|(?:trn|inf)\d\Z|ascend-?\d{3}\w?\Z"
    r"|[a-z][a-z0-9-]{0,60}?-\d{1,6}-of-\d)"
)
# Nodes of graphs and parts of models: `conv1`, `AddBackward0`, `relu-2`, `getitem-3`.
_OF_GRAPHS = frozenset(
    "conv linear layer layers relu gelu silu add sub div mul matmul mm bmm addmm block blocks stage fc norm bn ln "
    "head heads attn attention mlp op node cat view permute transpose reshape softmax dropout embedding embed "
    "pool maxpool avgpool getitem placeholder output input arg primals tangents buf expert encoder decoder param "
    "weight bias cast slice split squeeze unsqueeze expand clone copy sum mean pow sqrt exp log sigmoid tanh "
    "where select scatter gather graph subgraph submod fused triton kernel loss metric acc tensor group bucket "
    "queue thread actor stream event tag level part page line col row var const item key val file test case "
    "example sample class label category unit".split()
)
_HOST = lazy(r"[A-Za-z](?=[A-Za-z0-9.-]*\d)[A-Za-z0-9]*(?:-[A-Za-z0-9]+)*(?:\.[A-Za-z0-9-]+)*\Z", re.ASCII)
_CAMEL = lazy(r"[a-z][A-Z]|[A-Z]{2,}[a-z]", re.ASCII)
_STEM = lazy(r"([A-Za-z-]*?)-?\d", re.ASCII)
_FILE = lazy(
    r"\.(?:py|pyx|cc|cpp|cu|h|log|txt|out|err|json|jsonl|ya?ml|sh|toml|pt|pth|bin|cfg|conf|ini|so|csv"
    r"|safetensors|parquet|arrow|tar|tgz|gz|zst|xz|bz2|zip|np[yz]|h5|hdf5|pkl|ckpt|tfrecords?|mp[34]|wav|flac|png|jpe?g|webp)"
    r"(?:\.\d+)?\Z"
)


# Numbers filled up with zeros, a rack and a node in it, Cray's and Slingshot's names.
_STRONG = lazy(r".*(?<!\d)0\d|[A-Za-z]{3,}\d{1,4}[A-Za-z]{1,8}\d|x\d{3,5}c\d|nid\d{3}", re.ASCII)
_TARGET = lazy(r"\w{1,8}-(?:OST|MDT)[0-9a-f]{4}", re.ASCII)  # of Lustre: the file system, and what keeps it
_FORMAT = lazy(
    r"(?i:e\dm\d|w\d{1,2}(?:kv\d)?a\d|img|image|subject|speaker|split|chunk|config|frame|data|patch|round|group)"
)


def strong(name: str) -> bool:
    """Whether a word is numbered as hosts are and hardly anything else: `rack3n01`, `gpu-017`, `x1000c0s0b0n0`."""
    return _STRONG.match(name) is not None and _FORMAT.match(name) is None and numbered(name)


def stem(name: str) -> str:
    """The letters before the first number of a name, in lower case: `rack` of `rack3n01`; empty if it has none."""
    found = _STEM.match(name)
    return found[1].lower() if found is not None else ""


def of_graph(name: str) -> bool:
    """Whether a name is sooner that of a node of a graph or of a part of a model."""
    return (
        stem(name) in _OF_GRAPHS or name.lower() in _OF_GRAPHS or ("-" not in name and _CAMEL.search(name) is not None)
    )


def numbered(name: str) -> bool:
    """Whether a word with a number in it may be a host: no device, model, file, interface or kind of machine."""
    return (
        3 <= len(name) <= 253
        and _HOST.match(name) is not None
        and _COUNTED.match(name) is None
        and _TARGET.match(name) is None
        and not any(part.isdigit() for part in name.split("."))  # `layers.3.attn`
        and _FILE.search(name) is None
        and name.lower() not in NO_HOSTS
        and not of_graph(name)
    )


def word(name: str) -> bool:
    """Whether a word without a number may be a host where a label says so: no state, system or word of logs."""
    lowered = name.lower()
    return (
        len(name) > 2
        and name.replace("-", "").isalpha()
        and not (lowered in NO_HOSTS or lowered in ORDINARY or lowered in TERMS)
        and not of_graph(name)
    )
