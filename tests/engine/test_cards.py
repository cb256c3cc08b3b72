"""Serial numbers and UUIDs of the GPUs on which faults are found, by what nvidia-smi and rocm-smi list."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Finding, Role

SERIALS = {0: "1650000000010", 1: "1650000000011"}
UUID = "GPU-00000000-0000-0000-0000-00000000000{n}"
INITS = "".join(
    f"{{host}}:{100 + r}:{200 + r} [{r}] NCCL INFO comm 0x55d{r} rank {r} nranks 2 cudaDev {r} nvmlDev {r} "
    f"busId {0x1B + r:x}000 commId 0xabc - Init COMPLETE\n"
    for r in range(2)
)
STEPS = "".join(f"step {n} loss {2.5 - n / 100:.3f}\n" for n in range(30))
FALLEN = "[ 9912.004512] NVRM: Xid (PCI:0000:1c:00): 79, pid=101, name=python, GPU has fallen off the bus.\n"
UNCORRECTABLE = (
    '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/train.py", line 7, in <module>\n'
    "[rank1]:     main()\n[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
)


def full(serials: dict[int, str]) -> str:
    """`nvidia-smi -q` (driver 580), cut to what stands around the values."""
    blocks = "".join(
        f"GPU 00000000:{0x1B + n:02X}:00.0\n    Product Name                          : NVIDIA H200\n"
        f"    Driver Model\n        Current                           : N/A\n"
        f"    Serial Number                         : {serial}\n    GPU UUID                              : {UUID.format(n=n)}\n"
        f"    Platform Info\n        Chassis Serial Number             : N/A\n    PCI\n        Bus                               : 0x1B\n"
        f"        Bus Id                            : 00000000:{0x1B + n:02X}:00.0\n"
        for n, serial in serials.items()
    )
    return f"\n==============NVSMI LOG==============\n\nAttached GPUs                             : {len(serials)}\n{blocks}"


CSV = "index, serial, uuid, pci.bus_id\n" + "".join(
    f"{n}, {serial}, {UUID.format(n=n)}, 00000000:{0x1B + n:02X}:00.0\n" for n, serial in SERIALS.items()
)
BUS_FIRST = "index, pci.bus_id, serial\n" + "".join(
    f"{n}, 00000000:{0x1B + n:02X}:00.0, {serial}\n" for n, serial in SERIALS.items()
)
ROCM = "".join(
    f"GPU[{n}]\t\t: PCI Bus: 0000:{0x1B + n:02X}:00.0\nGPU[{n}]\t\t: Serial Number: {serial}\n"
    for n, serial in SERIALS.items()
)


def found(folder: Path, listing: str, *, train: str = STEPS, kernel: str = FALLEN) -> Finding:
    (folder / "train.log").write_text(INITS.format(host="node") + train)
    (folder / "smi.txt").write_text(listing)
    if kernel:
        (folder / "dmesg.txt").write_text(kernel)
    return analyse([str(folder)]).of_role(Role.ROOT)[0]


@pytest.mark.parametrize("listing", [full(SERIALS), CSV, BUS_FIRST], ids=["full", "csv", "bus first"])
def test_a_card_that_fell_off_the_bus_is_named_by_its_serial_number(tmp_path: Path, listing: str) -> None:
    root = found(tmp_path, listing)
    assert (root.name, root.ranks, root.captures["serial"]) == ("gpu-fell-off-bus", (1,), SERIALS[1])
    assert any(f"serial number {SERIALS[1]}" in note for note in root.notes)


def test_the_uuid_is_told_too(tmp_path: Path) -> None:
    assert found(tmp_path, full(SERIALS)).captures["gpu_uuid"] == UUID.format(n=1)


def test_the_card_of_a_rank_whose_own_log_tells_of_the_fault(tmp_path: Path) -> None:
    root = found(tmp_path, full(SERIALS), train=STEPS + UNCORRECTABLE, kernel="")
    assert (root.name, root.ranks, root.captures["serial"]) == ("gpu-ecc-uncorrectable", (1,), SERIALS[1])


def test_cards_of_amd(tmp_path: Path) -> None:
    kernel = "[ 9912.004512] amdgpu 0000:1c:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block\n"
    root = found(tmp_path, ROCM, kernel=kernel)
    assert (root.name, root.captures["serial"]) == ("gpu-ecc-uncorrectable", SERIALS[1])


@pytest.mark.parametrize("listing", [full({0: SERIALS[0]}), full(SERIALS) + full({1: "1650000000099"})])
def test_no_serial_number_where_the_card_is_not_listed_or_listed_as_two(tmp_path: Path, listing: str) -> None:
    assert "serial" not in found(tmp_path, listing).captures


def driver(bus: str, serial: str) -> str:
    """What the driver says of a card before its first error."""
    return (
        f"[ 9911.000000] NVRM: GPU at PCI:0000:{bus}:00: {UUID.format(n=1)}\n"
        f"[ 9911.000001] NVRM: GPU Board Serial Number: {serial}\n"
    )


LOST = "[ 9912.004600] NVRM: GPU 0000:1c:00.0: GPU serial number is 1650000000011.\n"


@pytest.mark.parametrize("kernel", [driver("1c", SERIALS[1]) + FALLEN, FALLEN + LOST], ids=["before", "lost"])
def test_the_drivers_own_word_of_the_serial_number(tmp_path: Path, kernel: str) -> None:
    root = found(tmp_path, "", kernel=kernel)
    assert (root.name, root.captures["serial"]) == ("gpu-fell-off-bus", SERIALS[1])


def test_the_drivers_word_is_of_the_card_that_it_named_last(tmp_path: Path) -> None:
    named = driver("1c", SERIALS[1]) + driver("1b", SERIALS[0])
    assert found(tmp_path, "", kernel=named + FALLEN).captures["serial"] == SERIALS[1]
    mixed = "".join(line for half in (0, 1) for line in named.splitlines(keepends=True)[half::2])
    assert "serial" not in found(tmp_path, "", kernel=mixed + FALLEN).captures


def test_another_hosts_card_in_the_same_slot_is_not_meant(tmp_path: Path) -> None:
    for host in ("gpu-a01", "gpu-a02"):
        (tmp_path / host).mkdir()
    (tmp_path / "gpu-a01/smi.txt").write_text(full(SERIALS))
    (tmp_path / "gpu-a02/dmesg.txt").write_text(FALLEN)
    first, second = INITS.splitlines(keepends=True)
    (tmp_path / "gpu-a01/train.log").write_text(first.format(host="gpu-a01") + STEPS)
    (tmp_path / "gpu-a02/train.log").write_text(second.format(host="gpu-a02") + STEPS)
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert root.name == "gpu-fell-off-bus" and "serial" not in root.captures


@pytest.mark.parametrize(
    "said",
    [
        "GPU1: 0000:1C:00.0: Unknown Error",
        "GPU 0000:1C:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "gpu 0000:1C:00.0: Unknown Error",
        "GPU0000:1C:00.0: Unknown Error",
    ],
)
def test_nvidia_smi_names_the_card_that_it_cannot_reach(tmp_path: Path, said: str) -> None:
    (tmp_path / "train.log").write_text(INITS.format(host="n1") + STEPS)
    (tmp_path / "smi.txt").write_text(f"Unable to determine the device handle for {said}\n")
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks) == ("gpu-fell-off-bus", (1,))
