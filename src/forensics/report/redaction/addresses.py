"""Addresses and hardware: IPv4, IPv6, MAC, GUIDs, UUIDs of GPUs and machines, serial numbers."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second

_IPV4 = lazy(r"(?<![0-9A-Za-z.])(?:\d{1,3}\.){3}\d{1,3}(?![0-9A-Za-z]|\.\d)", re.ASCII)
_VERSION_BEFORE = lazy(
    r"(?i)(?:version|versions|\bver|release|cudnn|nccl|cuda|cublas|cufft|toolkit|firmware|\bfw|vbios|rocm"
    r"|\bhip|torch|python|"
    r"\.so|cu\d\d|[=<>~!]=|nvidia\w*|driver|inforom|\bv)[\"']?(?:[\s:=(_-]|is ){0,3}[\"'v]?\Z",
    re.ASCII,
)
_VERSION_AFTER = lazy(r"-(?:py|cp)\d|\.dist-info|\.(?:whl|tar|so)\b|\+cu\d", re.ASCII)
_ADDRESS_BEFORE = lazy(
    r"(?i)(?:\bip\w*|addr\w*|host\w*|node\w*|peer|server|\bto|\bfrom|\bat|\bby|via|connect\w*|endpoint"
    r"|master|://|@)[\"']?[\s:=(<\[]{0,3}\Z",
    re.ASCII,
)
_ADDRESS_AFTER = lazy(r"[:<]\d|/\d|%")
# Loopback, unspecified, netmasks, and the metadata service that is the same in every cloud.
_OPEN_IPS = lazy(r"(?:127\.|0\.0\.0\.0\Z|255\.255\.|169\.254\.169\.254\Z)", re.ASCII)
# After a colon too: NCCL prints `[1]eth0:fe80::1%eth0<0>`, and `remoteGidsfe80::1`.
_IPV6 = lazy(r"(?:(?<![\w:.])|(?<=\w:)|(?<=Gids))[0-9A-Fa-f:]{4,40}(?![\w:]|\.\d)", re.ASCII)
_MAC_BY_DOTS = lazy(r"(?<![\w.])(?=[0-9.]*[a-f])(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}(?![\w.])", re.ASCII | re.I)  # Cisco
_MAC = lazy(
    r"(?<![0-9A-Fa-f:-])(?:(?:[0-9A-Fa-f]{2}:){5,19}|(?:[0-9A-Fa-f]{2}-){5,7})[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])", re.ASCII
)
_UUID = lazy(
    r"(?P<gpu>\b(?:GPU|MIG)-(?:GPU-)?)?(?:(?<![0-9A-Fa-f-])|(?<=\bpod)|(?<=\bpvc-))"
    r"(?P<uuid>[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})(?:/\d{1,3}/\d{"
    r"1,3})?(?![0-9A-Fa-f-])",
    re.ASCII,
)
_GPU_SHORT = lazy(r"(\b(?:GPU|MIG)-)([0-9a-f]{8,}[0-9a-f-]*)(?![\w-])", re.ASCII)  # a UUID that is cut
_SERIAL = lazy(
    r"(?i)((?<![A-Za-z])(?:serial|chassis|s/n)(?:[ _-]?(?:number|num|no\.?"
    r"|#))?\\?[\"']?(?:\s{0,40}[:=#]\s{0,4}|\sis\s)\\?[\"']?)(?=[A-Z0-9-]*\d)([A-Z0-9][A-Z0-9-]{5,40})\b",
    re.ASCII,
)
# A row of `nvidia-smi --format=csv`: 13 digits beside the name or the id of a GPU.
_SERIAL_CELL = (
    lazy(
        r"(\b(?:NVIDIA|Tesla|GPU-[0-9a-f-]{8,40}|gpu-\d{1,9}|[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d)[^,\n]{0,60}"
        r"(?:,\s?[^,\n]{1,60}){0,6}?,\s?)(\d{13})(?=,|\s|\Z)",
        re.ASCII,
    ),
    lazy(
        r"((?:^|[\s,]))(\d{13})(?=,\s?(?:[^,\n]{1,60},\s?){0,6}?(?:NVIDIA |Tesla |GPU-[0-9a-f]{8}|gpu-\d))",
        re.ASCII | re.M,
    ),
)
_GUID = lazy(
    r"(?i)(\b(?:node|port|sys(?:tem)?|board|sm|sys_image)?[ _]?guid\\?[\"']?(?:\s{0,40}[:=]\s{0,4}|[ \t]))(0x[0-9a-f]{1"
    r"2,16}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4})\b",
    re.ASCII,
)
_MACHINE_ID = lazy(
    r"(?i)(\b(?:machine|boot|host)[ _-]?id\\?[\"']?\s{0,20}[:=]\s{0,4}\\?[\"']?)([0-9a-f]{12,64})\b", re.ASCII
)
# Ray's ids of nodes, actors and jobs (28 bytes, 16 and 4; common/constants.h, id.h of Ray).
_RAY_ID = lazy(
    r"(?i)((?:\b(?:node|worker|actor|job|task|object|placement[ _]group|raylet|session)(?:[ _-]| ?\()?"
    r"|\(IP: [\w.-]{1,40}, )id"
    r"\\?[\"']?\s?[:=]?\s{0,2}\\?[\"']?)"
    r"((?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{28,56})\b",
    re.ASCII,
)


def _mac(match: re.Match[str], memory: Memory) -> str:
    value = match[0].lower()
    # Six pairs of digits with hyphens are a time stamp in a file name.
    return match[0] if "-" in value and not re.search("[a-f]", value) else memory.of("mac", value)


def _v4(match: re.Match[str], memory: Memory) -> str:
    parts = match[0].split(".")
    if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in parts) or _OPEN_IPS.match(match[0]):
        return match[0]
    before = match.string[max(0, match.start() - 24) : match.start()]
    after = match.string[match.end() : match.end() + 12]
    if _VERSION_BEFORE.search(before) or _VERSION_AFTER.match(after):
        return match[0]
    first, second_, third, _ = map(int, parts)
    if (
        first < 10
        and second_ <= 40
        and third <= 40
        and not (_ADDRESS_BEFORE.search(before) or _ADDRESS_AFTER.match(after))
    ):
        return match[0]  # 2.13.0.1: four small numbers with nothing that says address are a version
    return memory.of("ip", match[0])


def _v6(match: re.Match[str], memory: Memory) -> str:
    value = match[0]
    if value.count(":") < 2 or not any(char.isdigit() for char in value):
        return value  # `abc::dead` is a name in C++ sooner than an address
    from ipaddress import AddressValueError, IPv6Address

    colon = ":" if value.endswith(":") and not value.endswith("::") else ""
    try:
        address = IPv6Address(value.removesuffix(colon))
    except AddressValueError:
        return value
    if address.is_loopback or address.is_unspecified:
        return value
    return memory.of("ip", address.compressed) + colon


def _uuid(match: re.Match[str], memory: Memory) -> str:
    return memory.of("gpu" if match["gpu"] else "uuid", match["uuid"].lower())


def addresses(text: str, memory: Memory) -> str:
    """`text` without network addresses; loopback, unspecified addresses and netmasks stay, as do version numbers."""
    if ":" in text or "-" in text:
        text = _MAC.sub(lambda match: _mac(match, memory), text)
    if "." in text:
        text = _MAC_BY_DOTS.sub(lambda match: memory.of("mac", match[0].lower()), text)
        text = _IPV4.sub(lambda match: _v4(match, memory), text)
    if ":" in text:
        text = _IPV6.sub(lambda match: _v6(match, memory), text)
    return text


def hardware(text: str, memory: Memory) -> str:
    """`text` without UUIDs, GUIDs and serial numbers of GPUs, boards and machines; PCI bus ids stay."""
    if "-" in text:
        text = _UUID.sub(lambda match: _uuid(match, memory), text)
        text = _GPU_SHORT.sub(lambda match: memory.of("gpu", match[2]), text)
    if "," in text and ("NVIDIA" in text or "GPU-" in text or "gpu-" in text or "Tesla" in text):
        for pattern in _SERIAL_CELL:
            text = second(pattern, lambda value: memory.of("serial", value), text)
    for kind, pattern in (("serial", _SERIAL), ("guid", _GUID), ("uuid", _MACHINE_ID), ("uuid", _RAY_ID)):
        text = second(pattern, lambda value, kind=kind: memory.of(kind, value), text)  # type: ignore[misc]
    return text
