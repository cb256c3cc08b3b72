"""What a machine and its packages are, as tools print it: pip, conda, collect_env, nvidia-smi, env, and banners.

These texts stand in files of their own or at the head of a log, so that they are looked for in the first kilobytes of
every log. Only statements of fact are taken: a version that is installed, and not one that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from forensics.parsers.run_files import commands, containers
from forensics.parsers.run_files.base import is_private, item
from forensics.parsers.run_files.commands import traced_commands
from forensics.parsers.run_files.containers import images
from forensics.parsers.run_files.documents import Item, read_yaml
from forensics.patterns import lazy

# Packages whose version can explain a failure of training; of a list of hundreds, these become facts.
PACKAGES = frozenset(
    "torch torchvision torchaudio torchdata torchtitan torchtune triton pytorch-triton transformers tokenizers"
    " accelerate deepspeed peft trl datasets safetensors huggingface-hub bitsandbytes flash-attn flash-attn-3"
    " xformers apex transformer-engine megatron-core nemo-toolkit lightning pytorch-lightning torchmetrics numpy"
    " scipy pandas pyarrow fsspec s3fs ray vllm sglang openrlhf verl jax jaxlib flax optax tensorflow tensorboard"
    " keras timm diffusers mmengine mmcv mmcv-full fairseq mosaicml composer mosaicml-streaming webdataset wandb"
    " mlflow hydra-core omegaconf torch-xla torch-npu horovod mpi4py liger-kernel unsloth gymnasium"
    " stable-baselines3 ultralytics sentencepiece nvidia-nccl-cu11 nvidia-nccl-cu12 nvidia-nccl-cu13 nvidia-cudnn-cu11"
    " nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-cuda-runtime-cu11 nvidia-cuda-runtime-cu12 nvidia-cublas-cu12"
    " cupy-cuda11x cupy-cuda12x protobuf grpcio pydantic setuptools pytorch cudatoolkit nccl cudnn opencv-python"
    " pillow python".split()
)
# Names under which another tool lists the same package.
_SAME = {"pytorch": "torch", "flash_attn": "flash-attn", "megatron_core": "megatron-core", "nccl": "nccl"}
_FROZEN = lazy(r"^([A-Za-z0-9][\w.-]{0,80})==([\w.!+-]{1,60})\s*$", re.M)
_FEWEST = 5  # lines of a frozen list that stand together in a log

# Settings of the environment that bear on training; a dump of it holds many others, and credentials among them.
_ENV_NAME = (
    r"(?:NCCL|TORCH|PYTORCH|CUDA|GLOO|OMP|MKL|KMP|SLURM|FI|UCX|OMPI|PMI|MASTER|LOCAL|GROUP|ROLE|NODE|RDZV|TORCHELASTIC"
    r"|ACCELERATE|DS|DEEPSPEED|HF|TRANSFORMERS|TOKENIZERS|WANDB|PL|XLA|TF|NVIDIA|HIP|ROCR|HSA|RCCL|ASCEND|HCCL|TRITON"
    r"|FSDP|MEGATRON|NVTE|LD|PYTHON)_[A-Z0-9_]{1,60}|WORLD_SIZE|RANK|OMP_NUM_THREADS|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|PYTHONPATH|PYTHONHASHSEED|NODE_RANK|HIP_VISIBLE_DEVICES|APPTAINER_CONTAINER|SINGULARITY_CONTAINER"
)
_ENV = lazy(rf"^(?:export |declare -x |set )?({_ENV_NAME})=[\"']?([^\n\"']{{0,300}})", re.M)
_ENV_LITERALS = (
    "_DEVICES=",
    "_SIZE=",
    "_RANK=",
    "NCCL_",
    "_ADDR=",
    "_PATH=",
    "_THREADS=",
    "_DEBUG=",
    "_JOB_ID=",
    "_CONTAINER=",
)
_ENV_QUOTED_LITERALS = tuple(
    f"{part}{quote}: {quote}" for part in ("_DEVICES", "_SIZE", "_RANK", "_DEBUG", "_THREADS") for quote in "'\""
)
# The same as Python prints `os.environ`, on one line; and a dict of them as pprint and json lay it out, one a line.
_ENVIRON = "environ({"
_ENV_PAIR = rf"(['\"])({_ENV_NAME})\1: ?(['\"])([^\n\"'\\]{{0,300}})\3"
_ENV_QUOTED = lazy(_ENV_PAIR)
_ENV_ROW = lazy(rf"^[ \t]*\{{?[ \t]*{_ENV_PAIR}[,}}]?[ \t]*\}}?[ \t]*$", re.M)
_NOT_TOLD = lazy(r"HOST|NODELIST|NODENAME|_ADDR|_IP|_USER|SUBMIT|LAUNCH_NODE|CONF_URL|_UID|_GID|WORK_DIR|_ARGS$")


def normal(package: str) -> str:
    """A package's name in pip's normal form (PEP 503)."""
    name = re.sub(r"[-_.]+", "-", package).lower()
    return _SAME.get(name, name)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _version(package: str, version: str, line: int | None) -> Item:
    return item(f"{normal(package)}.version", version, line)


def frozen(text: str) -> Iterator[Item]:
    """The versions of a `pip freeze`."""
    for m in _FROZEN.finditer(text):
        if normal(m[1]) in PACKAGES:
            yield _version(m[1], m[2], _line(text, m.start()))


def pip_freeze(text: str) -> Iterator[Item]:
    """A `pip freeze` within a text: lines of `name==version` that stand together."""
    if "==" not in text or text.count("==") + text.count(" @ ") < _FEWEST:
        return
    block = rf"(?:^[A-Za-z0-9][\w.-]{{0,80}}(?:==[\w.!+-]{{1,60}}| @ \S{{1,400}})[ \t\r]*\n){{{_FEWEST},}}"
    for m in re.finditer(block, text + "\n", re.M):
        for found in frozen(m[0]):
            yield item(found.path, found.value, _line(text, m.start()) + (found.line or 1) - 1)


_TABLE = lazy(r"^([A-Za-z0-9][\w.-]{0,80})[ \t]+(\d[\w.!+-]{0,60})(?:[ \t]+\S+){0,3}[ \t]*$", re.M)


_MOST_TABLES = 4
_TABLES = (
    ("Package ", r"^Package +Version[^\n]*\n-{3,}"),
    ("# packages in environment", r"^# packages in environment at [^\n]*\n(?:#[ \t]*\n)?# +Name +Version"),
)


def package_table(text: str) -> Iterator[Item]:
    """`pip list` (Package, Version, a rule) and `conda list` (its header names the environment)."""
    for literal, header in _TABLES:
        if literal not in text:
            continue
        for m in islice(re.finditer(header, text, re.M), _MOST_TABLES):
            end = text.find("\n\n", m.end())
            body = text[: end if end > 0 else len(text)]
            for row in _TABLE.finditer(body, m.end()):
                if normal(row[1]) in PACKAGES:
                    yield _version(row[1], row[2], _line(text, row.start()))


# What programs print of themselves. Each names the text that must stand in the log first, since a search costs.
_BANNERS: tuple[tuple[str, str, str], ...] = (
    ("NCCL version ", "nccl.version", r"\bNCCL version (\d+\.\d+\.\d+[\w.+-]*)"),
    ("RCCL version ", "rccl.version", r"\bRCCL version (\d[\w.+-]*)"),
    # torch.utils.collect_env
    ("PyTorch version: ", "torch.version", r"^\W{0,3}PyTorch version: (\d[\w.+-]*)"),
    ("CUDA used to build PyTorch: ", "torch.cuda", r"CUDA used to build PyTorch: (\d[\w.]*|None)"),
    ("ROCM used to build PyTorch: ", "torch.rocm", r"ROCM used to build PyTorch: (\d[\w.-]*)"),
    ("HIP runtime version: ", "hip.version", r"HIP runtime version: (\d[\w.]*)"),
    ("MIOpen runtime version: ", "miopen.version", r"MIOpen runtime version: (\d[\w.]*)"),
    # One line for each kind of device under ROCm, a list below the words under CUDA (`gpus`)
    ("GPU models and configuration: ", "gpu.name", r"^GPU models and configuration: (\S[^\n(]{0,78}[^\s(])"),
    ("Is CUDA available: ", "cuda.available", r"Is CUDA available: (True|False)"),
    ("CUDA runtime version: ", "cuda.version", r"CUDA runtime version: (\d[\w.]*)"),
    ("Nvidia driver version: ", "driver.version", r"Nvidia driver version: (\d[\w.]*)"),
    ("Python version: ", "python.version", r"^\W{0,3}Python version: (\d[\w.]*)"),
    ("Python platform: ", "platform", r"^Python platform: ([^\n]{1,120})"),
    # transformers-cli env, accelerate env
    ("`transformers` version: ", "transformers.version", r"`transformers` version: (\d[\w.+-]*)"),
    ("`Accelerate` version: ", "accelerate.version", r"`Accelerate` version: (\d[\w.+-]*)"),
    ("Accelerate version: ", "accelerate.version", r"Accelerate version: (\d[\w.+-]*)"),
    ("PyTorch version (", "torch.version", r"PyTorch version \([^)\n]{1,40}\): (\d[\w.+-]*)"),
    ("DeepSpeed version: ", "deepspeed.version", r"DeepSpeed version: (\d[\w.+-]*)"),
    # DeepSpeed's engine and ds_report
    ("DeepSpeed info: ", "deepspeed.version", r"DeepSpeed info: version=(\d[\w.+-]*)"),
    ("deepspeed info ...", "deepspeed.version", r"deepspeed info \.{3,} (\d[\w.+-]*)"),
    ("torch version ...", "torch.version", r"torch version \.{3,} (\d[\w.+-]*)"),
    ("torch cuda version ...", "torch.cuda", r"torch cuda version \.{3,} (\d[\w.]*)"),
    # containers, mmengine, Ultralytics, vLLM
    ("NVIDIA Release ", "container.release", r"^NVIDIA Release (\d\d\.\d\d)"),
    ("PyTorch Version ", "torch.version", r"^PyTorch Version (\d[\w.+-]*)"),
    ("PyTorch: ", "torch.version", r"^ +PyTorch: (\d[\w.+-]*)\s*$"),
    ("MMEngine: ", "mmengine.version", r"^ +MMEngine: (\d[\w.+-]*)\s*$"),
    (" torch-", "torch.version", r"\bUltralytics [^\n]{0,60} torch-(\d[\w.+-]*)"),
    ("vLLM ", "vllm.version", r"\bInitializing (?:an LLM|a V1 LLM) engine \(v(\d[\w.+-]*)\)"),
    # nvidia-smi
    ("| NVIDIA-SMI ", "driver.version", r"^\| NVIDIA-SMI \S+ +Driver Version: (\d[\d.]*)"),
    ("CUDA Version: ", "driver.cuda", r"^\| NVIDIA-SMI [^\n]*CUDA Version: (\d[\d.]*)"),
    ("NVSMI LOG", "driver.version", r"^Driver Version +: (\d[\d.]*)"),
    ("NVSMI LOG", "driver.cuda", r"^CUDA Version +: (\d[\d.]*)"),
    ("Attached GPUs", "gpu.count", r"^Attached GPUs +: (\d+)"),
    ("Product Name", "gpu.name", r"^ +Product Name +: ([^\n]{1,80})"),
    # Lightning's tip for cards with Tensor Cores
    ("You are using a CUDA device ('", "gpu.name", r"You are using a CUDA device \('([^'\n]{3,80})'\)"),
    # What programs print of the device that they use; Lightning's line says whether it does
    (
        "cuda",
        "device.used",
        r"(?i)\b(?:device|accelerator)[\"']?(?: is| used| type|\(type)?(?: ?[=:]|) ?[\"']?(cuda(?::\d{1,2})?)\b",
    ),
    ("cuda", "device.used", r"\bUsing (cuda(?::\d{1,2})?) device\b"),
    ("GPU available: True", "device.used", r"GPU available: True \((cuda)\), used: True"),
    # torchelastic's and submitit's own words; submitit's are rank(number of ranks)
    ("nproc_per_node ", "launch.nproc_per_node", r"^[^\n]{0,80}\bnproc_per_node\s{0,20}: (\d{1,3})\s*$"),
    ("max_nodes ", "launch.max_nodes", r"^[^\n]{0,80}\bmax_nodes\s{0,20}: (\d{1,5})\s*$"),
    ("JobEnvironment(", "submitit.tasks", r"JobEnvironment\([^\n]{1,400}\bglobal_rank=\d+\((\d{1,6})\)"),
    # Example scripts of transformers: "Process rank: 0, device: cuda:0, n_gpu: 1, distributed training: True"
    ("distributed training: ", "launch.distributed", r"\bn_gpu: \d{1,3},? ?distributed training: (True)\b"),
    # The Trainer's banner
    ("Total optimization steps = ", "trainer.planned_steps", r"Total optimization steps = ([\d,]+)"),
    ("Gradient Accumulation steps = ", "trainer.accumulation", r"Gradient Accumulation steps = ([\d,]+)"),
    ("Total train batch size (", "trainer.total_batch_size", r"Total train batch size \(w[^)\n]*\) = ([\d,]+)"),
    ("Instantaneous batch size per device = ", "trainer.micro_batch", r"size per device = ([\d,]+)"),
)


def banners(text: str) -> Iterator[Item]:
    """Versions and sizes that programs state of themselves; the first of each."""
    for literal, name, pattern in _BANNERS:
        if literal in text and (m := re.search(pattern, text, re.M)) and m[1] is not None:
            yield item(name, m[1].replace(",", "") if name.startswith("trainer.") else m[1], _line(text, m.start()))


_CUDNN = lazy(
    r"^cuDNN version: (\d[\w.]*)?(?:Probably one of the following:[ \t]*\n)?"
    r"((?:\S{0,300}libcudnn\S{0,100}[ \t]*(?:\n|\Z)){0,60})",
    re.M,
)
_CUDNN_LIBRARY = lazy(r"libcudnn\w*\.so\.(\d[\d.]*)[ \t]*$", re.M)
_COLLECTED = lazy(
    r"^\[(?:pip3?|conda)\] ([A-Za-z0-9][\w.-]{0,80})(?:==|[ \t]+)(\d[\w.!+-]{0,60})(?:[ \t]+\S+){0,3}[ \t]*$", re.M
)


def collected_environment(text: str) -> Iterator[Item]:
    """What `torch.utils.collect_env` finds beside its own lines: the packages of pip and conda, and cuDNN's libraries.

    Libraries of several versions tell none of them: which one is loaded, their paths do not say.
    """
    if "cuDNN version: " in text and (m := _CUDNN.search(text)):
        libraries = list(_CUDNN_LIBRARY.finditer(text, m.start(2), m.end(2)))
        if m[1]:
            yield item("cudnn.version", m[1], _line(text, m.start(1)))
        elif len({found[1] for found in libraries}) == 1:
            yield item("cudnn.version", libraries[0][1], _line(text, libraries[0].start()))
    if "\n[pip" in text or "\n[conda] " in text:
        for m in _COLLECTED.finditer(text):
            if normal(m[1]) in PACKAGES:
                yield _version(m[1], m[2], _line(text, m.start()))


_UNREADABLE = "ERR!"  # in place of what the driver could not read; of a card that it lost, in place of all
_SMI_GPU = lazy(
    rf"^\| +(\d{{1,2}}) +({_UNREADABLE}|[A-Z][\w .-]{{3,40}}?) {{2,}}(?:On|Off|N/A|{_UNREADABLE}) +\|", re.M
)
_LISTED_GPU = lazy(r"^(?:\[\d+\] )?GPU (\d{1,2}): ([A-Z][\w .()-]{3,60}?)(?: \(UUID: [^)\n]*\))?\s*$", re.M)


def gpus(text: str) -> Iterator[Item]:
    """The devices that nvidia-smi, `nvidia-smi -L` and collect_env list: their number and the first one's name.

    `gpu.unreadable` holds the indices of those of which nvidia-smi could not even read the name.
    """
    for literal, pattern in (("| NVIDIA-SMI ", _SMI_GPU), ("GPU 0: ", _LISTED_GPU)):
        if literal not in text:
            continue
        found = list(pattern.finditer(text))
        if found:
            line = _line(text, found[0].start())
            lost = [m for m in found if m[2] == _UNREADABLE]
            yield item("gpu.count", len({int(m[1]) for m in found}), line)
            if named := next((m for m in found if m[2] != _UNREADABLE), None):
                yield item("gpu.name", named[2], _line(text, named.start()))
            if lost:
                indices = ", ".join(dict.fromkeys(m[1] for m in lost))
                yield item("gpu.unreadable", indices, _line(text, lost[0].start()))


def environment(text: str) -> Iterator[Item]:
    """Variables of an `env` dump, or of `os.environ`, that bear on training; no credentials, and no hosts' names."""
    found: list[tuple[str, str, int]] = []
    if any(literal in text for literal in _ENV_LITERALS):
        found += [(m[1], m[2], m.start()) for m in _ENV.finditer(text)]
    if (begin := text.find(_ENVIRON)) >= 0:
        end = text.find("\n", begin)
        dump = _ENV_QUOTED.finditer(text, begin, end if end >= 0 else len(text))
        found += [(m[2], m[4], m.start()) for m in dump]
    if any(literal in text for literal in _ENV_QUOTED_LITERALS):
        found += [(m[2], m[4], m.start(2)) for m in _ENV_ROW.finditer(text)]
    for name, value, at in found:
        if not is_private(name) and not _NOT_TOLD.search(name):
            yield item(f"env.{name}", value, _line(text, at))


_MEGATRON_BEGIN = lazy(r"^-{8,} arguments -{8,}\s*$", re.M)
_MEGATRON_END = lazy(r"^-{8,} end of arguments -+", re.M)
_MEGATRON_ROW = lazy(r"^  ([a-z][\w-]{1,60}) \.{2,} ([^\n]{0,200})$", re.M)


def megatron_arguments(text: str) -> Iterator[Item]:
    """The table of arguments that Megatron-LM prints at its start."""
    begin = _MEGATRON_BEGIN.search(text) if " arguments --------" in text else None
    if begin is None:
        return
    end = _MEGATRON_END.search(text, begin.end())
    for m in _MEGATRON_ROW.finditer(text, begin.end(), end.start() if end else len(text)):
        if not is_private(m[1]):
            yield item(f"megatron.{m[1]}", m[2], _line(text, m.start()))


_VERSION_SAID = lazy(
    r"(?<![\w./-])(torch|pytorch|torchvision|torchaudio|triton|transformers|tokenizers|accelerate|deepspeed|peft|trl"
    r"|datasets|numpy|flash[-_]attn|xformers|bitsandbytes|(?:pytorch[-_ ])?lightning|jax|tensorflow|keras|ray|vllm|timm"
    r"|diffusers)"
    r"(?: version|\.__version__) ?[:=] ?['\"]?v?(\d+\.\d[\w.+-]{0,50})",
    re.I | re.ASCII,
)
_ASKED_FOR = lazy(r"(?:min|max|requir|expect|support|latest|recommend|built|checkpoint|saved|need|want)\w*\W+\Z", re.I)
_MOST_VERSIONS = 40


_FROZEN_LOGGED = lazy(
    r"\bINFO(?::[\w.]{1,60}:|[\]:|]?[\s|-]{1,8})([A-Za-z0-9][\w.-]{0,80})==([\w.!+-]{1,60})\s*$", re.M
)


def stated_versions(text: str) -> Iterator[Item]:
    """Versions that a program prints of its packages: `torch version: 2.4.0`, and `name==version` where it is logged or
    stands beside another version.
    """
    said: list[Item] = []
    if " version" in text or "__version__" in text:
        for m in islice(_VERSION_SAID.finditer(text), _MOST_VERSIONS):
            if not _ASKED_FOR.search(text[max(0, m.start() - 20) : m.start()]):
                said.append(_version(m[1].replace(" ", "-"), m[2].rstrip(".-"), _line(text, m.start())))
    yield from said
    if "==" in text:
        for m in islice(_FROZEN_LOGGED.finditer(text), _MOST_VERSIONS):
            if normal(m[1]) in PACKAGES:
                yield _version(m[1], m[2], _line(text, m.start()))
        alone = list(islice(frozen(text), _MOST_VERSIONS))
        lines = {i.line for i in (*said, *alone) if i.line is not None}
        yield from (i for i in alone if i.line is not None and lines & {i.line - 1, i.line + 1})


# argparse's own print of what it read, SimpleNamespace's, and a dict of settings with its name before it.
_ARGUMENTS = lazy(r"\b(?:[Nn]amespace\(|(?i:args|arguments|config|hparams|cfg)\\?[\"']? ?[:=] ?\{)(?=[\w'\"])")
_ARGUMENT = lazy(r"\s{0,4}(?:([A-Za-z_]\w{0,80})=|(['\"])([A-Za-z_][\w./-]{0,80})\2: ?)")
_OPENS, _CLOSES = "([{<", ")]}>"
_PART = lazy(r"'(?:\\(?:.|\Z)|[^'\\])*(?:'|\Z)|\"(?:\\(?:.|\Z)|[^\"\\])*(?:\"|\Z)|[(\[{<)\]}>,]")
_NAME_ONLY = lazy(r"(?!(?:None|True|False|nan|inf|null|true|false)\Z)[A-Za-z_]\w*\Z")
_MOST_PRINTS, _LONGEST_PRINT, _MOST_ARGUMENTS, _DEEPEST = 4, 64 << 10, 600, 4


def printed_arguments(text: str) -> Iterator[Item]:
    """Arguments that a program prints on one line: `Namespace(lr=0.1, ...)`, `args: {'lr': 0.1, ...}`.

    A line that is cut gives what is whole.
    """
    if "amespace(" not in text and not any(literal in text for literal in _DICTS):
        return
    end = 0
    for m in islice(_ARGUMENTS.finditer(text), _MOST_PRINTS):
        if m.start() < end:  # within the one before
            continue
        stop = text.find("\n", m.end())
        end = min(stop if stop >= 0 else len(text), m.end() + _LONGEST_PRINT)
        line = _line(text, m.start())
        for name, value in islice(_pairs(text[m.end() : end], _DEEPEST), _MOST_ARGUMENTS):
            yield item(f"arguments.{name}", value, line)


def _pairs(body: str, deepest: int) -> Iterator[tuple[str, str]]:
    """(name, value) of what stands behind an opening bracket, up to its end; those of dicts within by dotted names."""
    at = 0
    while (key := _ARGUMENT.match(body, at)) is not None:
        name, start, depth = key[1] or key[3], key.end(), 0
        for part in _PART.finditer(body, start):
            mark = part[0]
            if depth == 0 and (mark == "," or mark in _CLOSES):
                break
            depth += (mark in _OPENS) - (mark in _CLOSES)
        else:
            return  # cut
        value, at = body[start : part.start()].strip(), part.end()
        if not is_private(name):
            if value.startswith("{") and deepest > 1:
                yield from ((f"{name}.{inner}", v) for inner, v in _pairs(value[1:], deepest - 1))
            elif not _NAME_ONLY.match(value) and (value[:1] not in _OPENS or not is_private(value)):
                yield name, _bare(value)
        if mark != ",":
            return


# torchtune (torchtune/utils/_logging.py, log_config): the settings as YAML below a line of their own.
_RESOLVED = lazy(
    r"\bRunning \w{1,80} with resolved config:[ \t]*\n\s*\n((?:[ \t]*(?:- |[A-Za-z_][\w.-]{0,80}:)[^\n]*\n?)+)"
)


def printed_yaml(text: str) -> Iterator[Item]:
    """The settings that torchtune prints at its start, as `arguments.<name>`; a nested one by its dotted name."""
    m = _RESOLVED.search(text) if " with resolved config:" in text else None
    if m is None:
        return
    line = _line(text, m.start(1))
    for found in islice(read_yaml(m[1]).items, _MOST_ARGUMENTS):
        if not is_private(found.path):
            yield item(f"arguments.{found.path}", found.value, line + (found.line or 1) - 1)


def _bare(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


_DICTS = tuple(f"{word}{sep}{{" for word in ("rgs", "rguments", "onfig", "params", "cfg") for sep in (": ", "=", " = "))
_LITERALS = (
    *dict.fromkeys(literal for literal, _, _ in _BANNERS),
    *(literal for literal, _ in _TABLES),
    *_ENV_LITERALS,
    *_ENV_QUOTED_LITERALS,
    _ENVIRON,
    "==",
    "cuDNN version: ",
    "[conda] ",
    "GPU 0: ",
    " arguments --------",
    "amespace(",
    *_DICTS,
    " with resolved config:",
    " version: ",
    " version = ",
    ".__version__",
    *containers.LITERALS,
    *commands.LITERALS,
)


def worth_reading(text: str) -> bool:
    """Whether a text holds a word of any listing; most logs do not, and are many."""
    return any(literal in text for literal in _LITERALS)


LISTINGS: tuple[Callable[[str], Iterator[Item]], ...] = (
    banners,
    gpus,
    collected_environment,
    pip_freeze,
    package_table,
    environment,
    megatron_arguments,
    stated_versions,
    printed_arguments,
    printed_yaml,
    images,
    traced_commands,
)
