from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.archives.formats import MARK, format_of, is_torch_zip, without_compression
from forensics.archives.limits import Limits, Member, Unpacked
from forensics.archives.unpacker import Unpacker
from forensics.engine.pipeline import Options, analyse, why_nothing
from forensics.engine.reading import sniffers
from forensics.model import Kind, Source, Status, Verdict
from forensics.run import Run, discover, examine

LOG = "".join(f"step {n} loss {1 / (n + 1):.4f}\n" for n in range(500)).encode()


def find(*paths: Path) -> Run:
    return discover([str(p) for p in paths], sniffers())


DEFAULT = Limits()


def unpack(file: Path, limits: Limits = DEFAULT) -> tuple[list[Member], Unpacked]:
    found = Unpacked()
    what = format_of(file.read_bytes()[: 16 << 10], file.name)
    assert what is not None
    members = list(Unpacker(limits).members(file, file.name, what, found, lambda name: None, lambda head, name: None))
    return members, found


def tar_of(file: Path, members: dict[str, bytes], mode: str = "w", kind: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(file, mode, format=kind) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            archive.addfile(info, io.BytesIO(data))
    return file


def zip_of(file: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)], ids=["gz", "xz", "bz2"]
)
def test_a_compressed_log_is_read_as_the_log(tmp_path: Path, suffix: str, pack: object) -> None:
    folder = tmp_path / "attempt_1" / "3"
    folder.mkdir(parents=True)
    (folder / f"stderr.log.{suffix}").write_bytes(pack(LOG))  # type: ignore[operator]
    run = find(tmp_path)
    (source,) = run.sources
    assert source.path == f"attempt_1/3/stderr.log.{suffix}!/stderr.log"
    assert source.file.read_bytes() == LOG
    assert (source.kind, source.size) == (Kind.LOG, len(LOG))
    assert (source.identity.local_rank, source.identity.attempt, source.identity.stream) == (3, 1, "stderr")
    (row,) = run.skipped
    assert (row.path, row.status, row.reason) == (f"attempt_1/3/stderr.log.{suffix}", Status.READ, "1 member unpacked")


def test_zstd_is_read_or_the_reason_is_given(tmp_path: Path) -> None:
    file = tmp_path / "a.log.zst"
    block = (100 << 3 | 1).to_bytes(3, "little")  # one raw block, the last, in a frame without checksum
    file.write_bytes(b"\x28\xb5\x2f\xfd\x20\x64" + block + LOG[:100])
    run = find(file)
    if run.sources:
        assert run.sources[0].file.read_bytes() == LOG[:100]
    else:
        assert "zstandard" in (run.skipped[0].reason or "")
        assert run.skipped[0].status is Status.SKIPPED


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_tar_of_a_run_directory(tmp_path: Path, mode: str, kind: int) -> None:
    deep = "run/" + "d" * 90 + "/" + "e" * 60 + "/rank2.log"
    members = {"run/rank0.log": LOG, "run/rank1.log": b"", deep: b"y\n" * 700, "./run/notes.txt": b"z\n"}
    file = tar_of(tmp_path / "node-3.tar.anything", members, mode, kind)
    run = find(file)
    assert {s.path.partition("!/")[2]: s.file.read_bytes() for s in run.sources} == {
        name.removeprefix("./"): data for name, data in members.items()
    }
    assert {s.identity.node for s in run.sources} == {"node-3"}
    assert run.sources[0].file.stat().st_mtime == 1_700_000_000
    assert [(c.path, c.status, c.reason) for c in run.skipped] == [(file.name, Status.READ, "4 members unpacked")]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_zip_of_a_run_directory(tmp_path: Path, method: int) -> None:
    zip_of(tmp_path / "artifacts.zip", {"logs/rank0.log": LOG, "logs/rank1.log": b""}, method)
    run = find(tmp_path)
    assert [(s.path, s.identity.rank) for s in run.sources] == [
        ("artifacts.zip!/logs/rank0.log", 0),
        ("artifacts.zip!/logs/rank1.log", 1),
    ]
    assert run.sources[0].file.read_bytes() == LOG


def test_a_torch_checkpoint_is_never_unpacked(tmp_path: Path) -> None:
    members = {"archive/data.pkl": b"\x80\x02}q\x00.", "archive/version": b"3\n", "archive/data/0": bytes(64)}
    for name in ("model.pt", "model.zip", "model"):
        zip_of(tmp_path / name, members, zipfile.ZIP_STORED)
    run = find(tmp_path)
    assert {(s.path, s.kind) for s in run.sources} == {(n, Kind.CHECKPOINT) for n in ("model.pt", "model.zip", "model")}
    assert is_torch_zip((tmp_path / "model.pt").read_bytes())


def test_other_zip_containers_are_not_unpacked(tmp_path: Path) -> None:
    zip_of(tmp_path / "arrays.npz", {"a.npy": b"\x93NUMPY" + bytes(100)})
    run = find(tmp_path)
    assert not run.sources
    assert "zip" in (run.skipped[0].reason or "")


def test_archives_within_archives_up_to_a_depth(tmp_path: Path) -> None:
    once = gzip.compress(LOG)
    inner = tar_of(tmp_path / "inner", {"rank0.log.gz": once}, "w:gz").read_bytes()
    (tmp_path / "inner").unlink()
    zip_of(tmp_path / "artifacts.zip", {"logs.tar.gz": inner, "rank1.log.gz": once})
    run = find(tmp_path)
    assert [s.path for s in run.sources] == [
        "artifacts.zip!/logs.tar.gz!/rank0.log.gz!/rank0.log",
        "artifacts.zip!/rank1.log.gz!/rank1.log",
    ]
    assert all(s.file.read_bytes() == LOG for s in run.sources)


def test_archives_deeper_than_the_limit_are_left_packed(tmp_path: Path) -> None:
    data, name = LOG, "rank0.log"
    for n in range(DEFAULT.depth + 1):
        data = tar_of(tmp_path / "one", {name: data}).read_bytes()
        name = f"{n}.tar"
    (tmp_path / "one").rename(tmp_path / "a.tar")
    run = find(tmp_path)
    assert not run.sources
    (left,) = [c for c in run.skipped if c.status is Status.SKIPPED]
    assert left.path.count("!/") == DEFAULT.depth and "within 4 other archives" in (left.reason or "")


def test_zstd_frames_one_after_the_other(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.compress(LOG)
    (tmp_path / "rank0.log.zst").write_bytes(packed + packed)
    (tmp_path / "rank1.log.zst").write_bytes(packed[:-20])
    run = find(tmp_path)
    assert run.sources[0].file.read_bytes() == LOG * 2
    row = next(c for c in run.skipped if c.path == "rank1.log.zst")
    assert "cut off" in (row.reason or "") and row.status is not Status.READ


def test_a_zstd_window_above_the_limit_is_no_damage(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    long = zstandard.ZstdCompressionParameters.from_level(3, window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=long).compressobj()  # no size, as zstd writes of a pipe
    (tmp_path / "rank0.log.zst").write_bytes(packer.compress(LOG) + packer.flush())
    damaged = zstandard.compress(LOG)
    (tmp_path / "rank1.log.zst").write_bytes(damaged[:6] + b"\xff" * 40)
    reasons = {c.path: c.reason or "" for c in find(tmp_path).skipped}
    assert "--long" in reasons["rank0.log.zst"] and "damaged" not in reasons["rank0.log.zst"]
    assert "damaged" in reasons["rank1.log.zst"] and "--long" not in reasons["rank1.log.zst"]


@pytest.mark.parametrize("name", ["../evil.log", "/../evil.log", "a/../../evil.log", "C:\\evil.log", "..\\evil.log"])
def test_no_member_leaves_the_archive(tmp_path: Path, name: str) -> None:
    home = tmp_path / "run"
    home.mkdir()
    tar_of(home / "a.tar", {name: LOG, "good.log": LOG})
    zip_of(home / "b.zip", {name: LOG, "good.log": LOG})
    run = find(home)
    assert {s.path for s in run.sources} == {"a.tar!/good.log", "b.zip!/good.log"}
    assert sum("leads out" in (c.reason or "") for c in run.skipped) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert all(s.file.name.isdigit() for s in run.sources)


def test_an_archive_of_which_nothing_is_taken_out_says_why_alone(tmp_path: Path) -> None:
    run = find(tar_of(tmp_path / "a.tar", {"../evil.log": LOG}))
    assert why_nothing(run).endswith("nothing to analyse (1 × its name leads out of the archive)")


def test_absolute_names_are_kept_without_their_slash(tmp_path: Path) -> None:
    home = tmp_path / "run"
    home.mkdir()
    tar_of(home / "a.tar", {"/var/log/rank0.log": LOG, "//srv/rank1.log": LOG})
    zip_of(home / "b.zip", {"/var/log/rank0.log": LOG, "\\share\\rank1.log": LOG})
    run = find(home)
    assert {s.path for s in run.sources} == {
        "a.tar!/var/log/rank0.log",
        "a.tar!/srv/rank1.log",
        "b.zip!/var/log/rank0.log",
        "b.zip!/share/rank1.log",
    }
    assert not [c for c in run.skipped if "leads out" in (c.reason or "")]
    assert all(s.file.name.isdigit() and s.file.read_bytes() == LOG for s in run.sources)


def test_links_and_devices_are_skipped_and_said(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (
            ("l", tarfile.SYMTYPE),
            ("h", tarfile.LNKTYPE),
            ("d", tarfile.CHRTYPE),
            ("p", tarfile.FIFOTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("x.log")
        info.size = len(LOG)
        archive.addfile(info, io.BytesIO(LOG))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as z:
        entry = zipfile.ZipInfo("link")
        entry.create_system, entry.external_attr = 3, 0o120777 << 16
        z.writestr(entry, "/etc/passwd")
        z.writestr("x.log", LOG)
    run = find(tmp_path)
    assert {s.path for s in run.sources} == {"a.tar!/x.log", "b.zip!/x.log"}
    reasons = {c.path: c.reason or "" for c in run.skipped}
    for path, word in (
        ("a.tar!/l", "link"),
        ("a.tar!/h", "link"),
        ("a.tar!/d", "device"),
        ("a.tar!/p", "pipe"),
        ("b.zip!/link", "link"),
    ):
        assert word in reasons[path]


def test_encrypted_members_are_skipped(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a.zip", {"secret.log": LOG, "open.log": LOG}, zipfile.ZIP_STORED)
    data = bytearray(file.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    file.write_bytes(data)
    run = find(file)
    assert [s.path for s in run.sources] == ["a.zip!/open.log"]
    assert {c.path: c.reason for c in run.skipped}["a.zip!/secret.log"] == "encrypted"


def test_sparse_members_are_skipped_and_what_follows_is_read(tmp_path: Path) -> None:
    (tmp_path / "holes").mkdir()
    with (tmp_path / "holes/big.log").open("wb") as f:
        f.truncate(64 << 20)
        f.write(b"end\n")
    (tmp_path / "holes/small.log").write_bytes(LOG)
    status = os.system(f"cd {tmp_path}/holes && tar --format=gnu -S -cf ../s.tar big.log small.log 2>/dev/null")
    if status:
        pytest.skip("no GNU tar")
    members, found = unpack(tmp_path / "s.tar")
    assert [m.name for m in members] == ["small.log"]
    assert found.skipped == [("big.log", "a sparse file in an archive")]


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_a_truncated_gzip_gives_what_is_there(tmp_path: Path, cut: float) -> None:
    data = gzip.compress(os.urandom(20_000).hex().encode())
    (tmp_path / "a.log.gz").write_bytes(data[: int(len(data) * cut)])
    run = find(tmp_path)
    assert len(run.sources) == 1 and run.sources[0].size > 5_000
    (row,) = run.skipped
    assert row.status is Status.PARTIAL and "cut off" in (row.reason or "")


def test_a_truncated_tar_gives_what_is_there(tmp_path: Path) -> None:
    file = tar_of(tmp_path / "a.tar.gz", {f"rank{n}.log": os.urandom(9_000).hex().encode() for n in range(4)}, "w:gz")
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 6 // 10])
    run = find(file)
    assert [s.identity.rank for s in run.sources] == [0, 1, 2]
    assert run.sources[0].size == 18_000 and 0 < run.sources[2].size < 18_000
    assert run.skipped[-1].status is Status.PARTIAL and "cut off" in (run.skipped[-1].reason or "")


def test_a_truncated_zip_says_so(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a.zip", {"rank0.log": LOG})
    file.write_bytes(file.read_bytes()[:-40])
    run = find(file)
    assert [s.file.read_bytes() for s in run.sources] == [LOG]
    assert run.skipped[0].status is Status.PARTIAL and "cut off" in (run.skipped[0].reason or "")


class _Pipe(io.BytesIO):
    """What cannot be sought: a writer of zips then states sizes behind the data."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation

    tell = seek


@pytest.mark.parametrize("stream", [False, True], ids=["sizes before", "sizes behind"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_cut_zip_gives_what_stands_before_the_cut(tmp_path: Path, method: int, stream: bool) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("deep.log", LOG)
    raw = _Pipe() if stream else io.BytesIO()
    members = {"a/rank0.log": LOG, "b.zip": inner.getvalue(), "rank1.log": LOG[:4000], "rank2.log": LOG * 4}
    with zipfile.ZipFile(raw, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    whole = raw.getvalue()
    file = tmp_path / "a.zip"
    for cut in range(40, len(whole), 97 if method else 997):
        file.write_bytes(whole[:cut])
        found = Unpacked()
        got = Unpacker().members(file, file.name, "zip", found, lambda name: None, lambda head, name: None)
        texts = [(m.name, m.file.read_bytes(), m.problem) for m in got]
        assert found.problem is not None and ("cut off" in found.problem or "damaged" in found.problem)
        for (name, data, problem), (expected, all_of_it) in zip(texts, members.items(), strict=False):
            assert name == expected and all_of_it.startswith(data)
            assert data == all_of_it or problem is not None
        listed = int.from_bytes(whole[-6:-2], "little")
        assert cut < listed or [problem for _, _, problem in texts] == [None] * len(members)


def test_a_descriptor_without_its_mark(tmp_path: Path) -> None:
    raw = _Pipe()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.log", LOG)
    file = tmp_path / "a.zip"
    file.write_bytes(raw.getvalue().split(b"PK\x01\x02")[0].replace(b"PK\x07\x08", b""))
    members, found = unpack(file)
    assert [(m.name, m.file.read_bytes()) for m in members] == [("rank0.log", LOG)]
    assert "cut off" in (found.problem or "")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), repeat=st.integers(1, 4))
def test_headers_of_any_bytes_are_walked(tmp_path: Path, data: bytes, repeat: int) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes((b"PK\x03\x04" + data) * repeat)
    found = Unpacked()
    limits = Limits(members=5)
    list(Unpacker(limits).members(file, file.name, "zip", found, lambda name: None, lambda head, name: None))
    assert found.problem is not None or found.skipped or found.count


def test_a_damaged_zip_member_costs_itself_only(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a.zip", {"bad.log": LOG, "good.log": LOG}, zipfile.ZIP_STORED)
    data = bytearray(file.read_bytes())
    data[200] ^= 0xFF
    file.write_bytes(data)
    members, found = unpack(file)
    assert [(m.name, m.problem is None) for m in members] == [("bad.log", False), ("good.log", True)]
    assert "checksum" in found.skipped[0][1]


def test_several_gzip_members_and_padding(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n") + bytes(512))
    run = find(tmp_path)
    assert run.sources[0].file.read_bytes() == b"one\ntwo\n"
    assert run.skipped[0].status is Status.READ


def test_a_bomb_stops_at_the_ratio(tmp_path: Path) -> None:
    bomb = zlib.compressobj(9, wbits=31)
    data = b"".join(bomb.compress(b"x" * (1 << 20)) for _ in range(40)) + bomb.flush()
    file = tmp_path / "a.log.gz"
    file.write_bytes(data)
    members, found = unpack(file, Limits(free=4 << 20))
    assert len(members) == 1 and members[0].file.stat().st_size <= 300 * len(data) + (1 << 20)
    assert "times its size" in (found.problem or "")
    members, found = unpack(
        zip_of(tmp_path / "b.zip", {f"{n}.log": bytes(2 << 20) for n in range(20)}), Limits(free=4 << 20)
    )
    assert sum(m.file.stat().st_size for m in members) <= 7 << 20
    assert "times its size" in (found.problem or "")


def test_the_total_counts_over_all_archives_of_a_run(tmp_path: Path) -> None:
    unpacker = Unpacker(Limits(total=30_000))
    sizes = []
    for n in range(3):
        file = tar_of(tmp_path / f"{n}.tar", {"a.log": bytes(8_000), "b.log": bytes(8_000)})
        found = Unpacked()
        sizes += [
            m.file.stat().st_size
            for m in unpacker.members(file, file.name, "tar", found, lambda name: None, lambda head, name: None)
        ]
    assert sum(sizes) <= 30_000
    assert "30,000 bytes" in (found.problem or "")


def test_many_members_stop_at_the_limit(tmp_path: Path) -> None:
    limits = Limits(members=100)
    names = {f"m{n}.log": b"x" for n in range(300)}
    for file in (tar_of(tmp_path / "a.tar", names), zip_of(tmp_path / "b.zip", names)):
        members, found = unpack(file, limits)
        assert len(members) == 100
        assert "more than 100 members" in (found.problem or "")


def test_a_million_members_cost_little(tmp_path: Path) -> None:
    block = tarfile.TarInfo("../x").tobuf(tarfile.USTAR_FORMAT)
    file = tmp_path / "a.tar.gz"
    packer = zlib.compressobj(1, wbits=31)
    with file.open("wb") as out:
        for _ in range(1_000):
            out.write(packer.compress(block * 1_000))
        out.write(packer.flush())
    members, found = unpack(file)
    assert not members
    assert "more than 50,000 members" in (found.problem or "")
    assert len(found.skipped) == Limits().rows
    assert sum(found.more.values()) == 50_000 - Limits().rows


def test_a_long_name_is_refused(tmp_path: Path) -> None:
    members, found = unpack(tar_of(tmp_path / "a.tar", {"n" * 5_000: b"x", "ok.log": b"y"}))
    assert [m.name for m in members] == ["ok.log"]
    assert "longer than" in found.skipped[0][1] and len(found.skipped[0][0]) <= 1024


def test_a_header_that_claims_gigabytes_is_not_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 6 << 30
    (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + b"x" * 4096)
    members, found = unpack(tmp_path / "a.tar")
    assert not members and "too large" in (found.problem or "")


def test_programs_and_data_in_archives_are_left_out(tmp_path: Path) -> None:
    tar_of(
        tmp_path / "a.tar",
        {".git/config": b"x", "shard.jpg": b"\xff\xd8\xff", "model.safetensors": bytes(99), "a.log": LOG},
    )
    run = find(tmp_path)
    assert [s.path for s in run.sources] == ["a.tar!/a.log"]
    assert len(run.skipped) == 4


def test_compressed_data_that_is_no_text_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "images.gz").write_bytes(gzip.compress(os.urandom(100_000)))
    run = find(tmp_path)
    assert not run.sources
    assert "binary" in (run.skipped[0].reason or "") and run.skipped[0].status is Status.SKIPPED


def test_compressed_data_that_are_cut_within_their_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "noise.log.gz").write_bytes(gzip.compress(os.urandom(100_000))[:4_000])
    (tmp_path / "rank0.log.gz").write_bytes(gzip.compress(LOG)[:-400])
    run = find(tmp_path)
    assert [s.path for s in run.sources] == ["rank0.log.gz!/rank0.log"]
    noise = next(c for c in run.skipped if c.path == "noise.log.gz")
    assert noise.status is Status.UNREADABLE
    assert noise.reason == (
        "cut off in the middle of its compressed data; what comes before: binary file of unknown format (gzip)"
    )


def test_a_compressed_log_that_begins_with_zeros(tmp_path: Path) -> None:
    """`logrotate` with copytruncate leaves a hole before what a writer that does not append goes on to write."""
    (tmp_path / "train.log.gz").write_bytes(gzip.compress(bytes(40_000) + LOG))
    (tmp_path / "zeros.log.gz").write_bytes(gzip.compress(bytes(40_000)))
    run = find(tmp_path)
    assert [(s.path, s.kind) for s in run.sources] == [("train.log.gz!/train.log", Kind.LOG)]
    zeros = next(c for c in run.skipped if c.path == "zeros.log.gz!/zeros.log")
    assert zeros.reason == "zero bytes, at its beginning and at its end"


def test_a_bomb_of_zeros_says_that_it_is_one(tmp_path: Path) -> None:
    bomb = zlib.compressobj(9, wbits=31)
    (tmp_path / "z.log.gz").write_bytes(b"".join(bomb.compress(bytes(1 << 20)) for _ in range(70)) + bomb.flush())
    run = find(tmp_path)
    assert not run.sources
    row = next(c for c in run.skipped if c.path == "z.log.gz")
    assert row.status is Status.PARTIAL
    assert (row.reason or "").startswith("unpacks to more than 300 times its size; the rest was not read (gzip)")


def docker_records(*lines: str, stream: str = "stdout", **more: str) -> bytes:
    stamps = (f"2026-03-01T10:00:{n % 60:02}.123456789Z" for n in range(len(lines)))
    rows = [{"log": line, "stream": stream, "time": time, **more} for line, time in zip(lines, stamps, strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_records_of_docker_are_the_log_that_they_hold(tmp_path: Path) -> None:
    data = docker_records("a\n", "\r 5%\r 6%\n", "tab\tand \u00e9\r\n", "long, ", "longer\n", "no end")
    (tmp_path / "rank_3.log").write_bytes(data + b"not a record\n")
    run = find(tmp_path)
    (source,) = run.sources
    assert (source.path, source.identity.rank) == ("rank_3.log!/rank_3.log", 3)
    assert source.file.read_bytes().decode().split("\n") == [
        "2026-03-01T10:00:00.123456789Z stdout F a",
        "2026-03-01T10:00:01.123456789Z stdout F \r 5%\r 6%",
        "2026-03-01T10:00:02.123456789Z stdout F tab\tand é",
        "",
        "2026-03-01T10:00:04.123456789Z stdout F long, longer",
        "",
        "not a record",
        "no end",
        "",
    ]
    (row,) = run.skipped
    assert row.status is Status.READ


@pytest.mark.parametrize(
    "data",
    [
        b'{"log": "x", "step": 1}\n{"log": "y", "step": 2}\n',
        b'{"log": {"level": "error"}, "stream": "stdout"}\n',
        b'{"log": "x\\n", "stream": "data"}\n',
        b'see {"log":"x","stream":"stdout"}\n',
    ],
)
def test_other_json_is_no_record_of_docker(data: bytes) -> None:
    assert format_of(data, "x-json.log") is None


def test_a_traceback_over_several_records_is_one_event(tmp_path: Path) -> None:
    stack = (
        "Traceback (most recent call last):\n  File \"/app/train.py\", line 9, in main\n    run()\nKeyError: 'label'\n"
    )
    error = docker_records(*stack.splitlines(keepends=True), stream="stderr").splitlines(keepends=True)
    steps = docker_records(*(f"step {n} loss {2 / n:.3f}\n" for n in range(1, 31))).splitlines(keepends=True)
    mixed = steps[:20] + [row for pair in zip(error, steps[20:], strict=False) for row in pair]
    (tmp_path / "0123abcd-json.log").write_bytes(b"".join(mixed))
    found = analyse([str(tmp_path)], Options(threads=1))
    assert found.verdict is Verdict.FAILED
    root = found.findings[0]
    assert (root.captures["exception"], root.captures["line"], root.captures["function"]) == ("KeyError", "9", "main")
    assert root.evidence[0].line == 27
    assert root.step == 23


def test_task_numbers_of_compressed_logs(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"job_{n}.err.gz").write_bytes(gzip.compress(LOG))
    assert [s.identity.task for s in find(tmp_path).sources] == [0, 1, 2]


def test_names_without_compression() -> None:
    assert without_compression("a/log.3.gz!/log.3") == "a/log.3"
    assert without_compression("a.tar.gz!/b.log.xz!/b.log") == "a.tar.gz!/b.log"
    assert without_compression("a.tar.gz!/b.log") == "a.tar.gz!/b.log"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_raises(tmp_path: Path, data: st.DataObject) -> None:
    sound = {
        "a.tar": tar_of(tmp_path / "s.tar", {"a.log": LOG[:700], "n" * 200: b"y"}).read_bytes(),
        "a.zip": zip_of(tmp_path / "s.zip", {"a.log": LOG[:700], "b": b""}).read_bytes(),
        "a.gz": gzip.compress(LOG[:700]),
        "a.xz": lzma.compress(LOG[:700]),
        "a.bz2": bz2.compress(LOG[:700]),
    }
    name = data.draw(st.sampled_from(sorted(sound)))
    raw = bytearray(sound[name])
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(1, len(raw)))]
    (tmp_path / "x").mkdir(exist_ok=True)
    for old in (tmp_path / "x").iterdir():
        old.unlink()
    (tmp_path / "x" / name).write_bytes(raw)
    run = find(tmp_path / "x")
    assert run.sources or run.skipped


def test_the_temporary_folder_is_deleted_at_exit(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "a.log.gz").write_bytes(gzip.compress(LOG))
    code = (
        "import sys; from forensics.engine.reading import sniffers; from forensics.run import discover;"
        "print(discover([sys.argv[1]], sniffers()).sources[0].file)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert MARK not in out.stdout
    assert not Path(out.stdout.strip()).parent.exists()


def test_a_log_that_may_grow_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "0123abcd-json.log"
    file.write_bytes(docker_records(*(f"step {n} loss 2.0\n" for n in range(9))))
    found = examine(file, file.name, sniffers())
    assert isinstance(found, Source) and found.kind in (Kind.LOG, Kind.METRICS)


def cut(folder: Path, whole: bytes, names: list[str]) -> None:
    """Lay bytes into as many files as there are names."""
    step = len(whole) // len(names) + 1
    for n, name in enumerate(names):
        (folder / name).write_bytes(whole[n * step : (n + 1) * step])


@pytest.mark.parametrize(
    "names",
    [
        ["rank0.log.gz.part-aa", "rank0.log.gz.part-ab", "rank0.log.gz.part-ac"],
        ["rank0.log.gzaa", "rank0.log.gzab"],
        ["rank0.log.gz.00", "rank0.log.gz.01"],
        ["rank0.log.gz.001", "rank0.log.gz.002"],
    ],
)
def test_the_parts_of_one_archive_are_read_as_one(tmp_path: Path, names: list[str]) -> None:
    cut(tmp_path, gzip.compress(LOG), names)
    run = find(tmp_path)
    assert [(s.path, s.file.read_bytes()) for s in run.sources] == [("rank0.log.gz!/rank0.log", LOG)]
    rows = {c.path: c for c in run.skipped}
    assert set(rows) == {*names, "rank0.log.gz"} and {c.status for c in rows.values()} == {Status.READ}
    assert rows[names[1]].reason == "a part of rank0.log.gz, and read with it"


def test_the_parts_of_a_tar_within_a_folder(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    whole = tar_of(tmp_path / "whole", {"rank0.log": LOG, "rank1.log": LOG}, "w:gz")
    cut(tmp_path / "logs", whole.read_bytes(), ["a.tgz.aa", "a.tgz.ab"])
    whole.unlink()
    assert [s.path for s in find(tmp_path).sources] == ["logs/a.tgz!/rank0.log", "logs/a.tgz!/rank1.log"]


def test_of_parts_of_which_the_last_is_missing_what_there_is_is_read(tmp_path: Path) -> None:
    noise = "".join(f"step {n} loss {hash((n, 7)) % 99991}\n" for n in range(3000)).encode()
    cut(tmp_path, gzip.compress(noise), ["r.log.gz.aa", "r.log.gz.ab", "r.log.gz.ac"])
    (tmp_path / "r.log.gz.ac").unlink()
    run = find(tmp_path)
    assert len(run.sources) == 1
    row = next(c for c in run.skipped if c.path == "r.log.gz")
    assert row.status is Status.PARTIAL and "cut off" in (row.reason or "")


def test_logs_that_were_packed_one_by_one_are_no_parts(tmp_path: Path) -> None:
    for name in ("train.log.gz.00", "train.log.gz.01"):
        (tmp_path / name).write_bytes(gzip.compress(LOG))
    assert len(find(tmp_path).sources) == 2
    (tmp_path / "train.log.gz.01").write_bytes(LOG)  # a text of its own
    (tmp_path / "train.log.gz.00").write_bytes(LOG)
    assert {s.path for s in find(tmp_path).sources} == {"train.log.gz.00", "train.log.gz.01"}
