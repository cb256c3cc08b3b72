from __future__ import annotations

import contextlib
import functools
import http.server
import io
import json
import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from click.testing import CliRunner  # noqa: E402

from forensics.cli import main  # noqa: E402
from forensics.engine.pipeline import analyse  # noqa: E402
from forensics.engine.reading import sniffers  # noqa: E402
from forensics.model import Coverage, Status, Verdict  # noqa: E402
from forensics.parsers.checkpoints.integrity import check  # noqa: E402
from forensics.remote import Choice, Limits, Unreachable, fetch, is_url, shown, without_secrets  # noqa: E402
from forensics.run import NothingToRead, Run, discover  # noqa: E402

LOG = b"".join(b"step %d loss %.4f\n" % (n, 2 / n) for n in range(1, 60))
FAILED = (
    LOG + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of\n"
)
ANY = Choice(lambda name: None, lambda head, name: None, lambda name: name.endswith(".pt"))
QUICK = Limits(pause=0.0)


def torch_zip(size: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        z.writestr("model/data.pkl", b"\x80\x02}q\x00.")
        for n in range(4):
            z.writestr(f"model/data/{n}", os.urandom(size // 4))
    return data.getvalue()


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    yield fs
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]


def put(fs: Any, **files: bytes) -> None:
    for name, data in files.items():
        fs.pipe(f"/run/{name.replace('__', '/').replace('_dot_', '.')}", data)


def find(url: str, **options: Any) -> Run:
    return discover([url], sniffers(), **options)


def rows(run: Run) -> dict[str, Coverage]:
    return {c.path: c for c in run.skipped}


def test_what_is_a_url() -> None:
    assert is_url("s3://bucket/run") and is_url("https://host/a.log") and is_url("memory://run")
    assert not is_url("/data/run") and not is_url("run/a:b") and not is_url("C:/run") and not is_url("-")


def test_credentials_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://someone:hunter2@host.example/run/a.log?X-Amz-Signature=abcdef0123&token=t0ps3cret"
    assert shown(url) == "https://host.example/run/a.log"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    said = without_secrets(f"403 for {url}\nkey wJalrXUtnFEMI, password=hunter2, hunter2", url)
    assert "\n" not in said
    assert not any(secret in said for secret in ("hunter2", "abcdef0123", "t0ps3cret", "wJalrXUtnFEMI", "someone:"))


def test_a_run_in_memory(memory: Any) -> None:
    put(memory, attempt_0__3__stderr_dot_log=FAILED, train_dot_py=b"x = 1\n", data_dot_parquet=b"PAR1")
    run = find("memory://run")
    (source,) = run.sources
    assert (source.path, source.identity.local_rank) == ("attempt_0/3/stderr.log", 3)
    assert source.file.read_bytes() == FAILED
    assert source.file.name.isdigit()
    assert {p: r.reason for p, r in rows(run).items()} == {
        "train.py": "program source",
        "data.parquet": "data, which are not fetched",
    }
    assert analyse(["memory://run"]).verdict is Verdict.FAILED


def test_one_file_and_several_urls(memory: Any) -> None:
    put(memory, a_dot_log=LOG, b_dot_log=LOG)
    assert [s.path for s in find("memory://run/a.log").sources] == ["a.log"]
    both = discover(["memory://run", "memory://run/b.log"], sniffers())
    assert [s.path for s in both.sources] == ["run/a.log", "run/b.log", "b.log"]
    assert both.path == "memory://run memory://run/b.log"


def test_options_hold_for_urls_too(memory: Any) -> None:
    put(memory, a_dot_log=LOG, b_dot_log=LOG)
    run = find("memory://run", exclude=["b.*"], since=4e9)
    assert {p: r.reason for p, r in rows(run).items()} == {"a.log": "older than --since", "b.log": "excluded"}


def test_archives_are_unpacked(memory: Any) -> None:
    import gzip

    put(memory, a_dot_log_dot_gz=gzip.compress(LOG))
    assert [s.path for s in find("memory://run").sources] == ["a.log.gz!/a.log"]


def test_of_a_large_checkpoint_the_ends_are_fetched(memory: Any) -> None:
    whole = torch_zip(400_000)
    put(memory, model_dot_pt=whole, cut_dot_pt=whole[:-5_000])
    limits = Limits(ends=70_000, small=1_000, pause=0.0)
    found = {one.name: one for one in fetch("memory://run", ANY, limits)}
    one = found["model.pt"]
    assert one.file is not None and one.gap == (70_000, len(whole) - 70_000)
    data = one.file.read_bytes()
    assert len(data) == len(whole)
    assert data[:70_000] == whole[:70_000] and data[-70_000:] == whole[-70_000:]
    assert not data[70_000:-70_000].strip(b"\0")
    assert check(one.file, "model.pt", one.gap) is None  # what was not fetched is not taken for zeros
    assert check(one.file, "model.pt") is not None
    cut = found["cut.pt"]
    assert cut.file is not None
    damage = check(cut.file, "cut.pt", cut.gap)
    assert damage is not None and "cut off" in damage.text


def test_the_total_is_kept(memory: Any) -> None:
    put(memory, a_dot_log=LOG, b_dot_log=LOG)
    found = list(fetch("memory://run", ANY, Limits(total=len(LOG) + 10)))
    assert [one.file is not None for one in found] == [True, False]
    assert "more than is fetched" in (found[1].reason or "")


def test_more_files_than_the_limit(memory: Any) -> None:
    put(memory, **{f"f{n}_dot_log": LOG for n in range(9)})
    found = list(fetch("memory://run", ANY, Limits(files=4)))
    assert [one.name for one in found if one.file] == ["f0.log", "f1.log", "f2.log", "f3.log"]
    assert found[-1].reason == "more than 4 files"


class Hostile(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Lists names that lead elsewhere, and folders without end; fails before it works."""

    protocol = "hostile"
    cachable = False
    failures = 0
    opened = 0

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return {"name": path, "type": "directory", "size": 0}

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = path.rstrip("/")
        return [
            {"name": f"{path}/../../etc/evil.log", "type": "file", "size": len(LOG)},
            {"name": "/etc/passwd", "type": "file", "size": 10},
            {"name": f"{path}/loop", "type": "directory", "size": 0},
            {"name": path, "type": "directory", "size": 0},
        ]

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        Hostile.opened += 1
        if Hostile.opened <= Hostile.failures:
            raise ConnectionResetError("reset by peer")
        return io.BytesIO(LOG)


@pytest.fixture
def hostile() -> Iterator[type[Hostile]]:
    fsspec.register_implementation("hostile", Hostile, clobber=True)
    Hostile.failures = Hostile.opened = 0
    yield Hostile


def test_no_name_of_a_bucket_becomes_a_path(hostile: type[Hostile]) -> None:
    found = list(fetch("hostile://run", ANY, Limits(depth=3, pause=0.0)))
    kept = [one for one in found if one.file is not None]
    assert kept and all(one.file is not None and one.file.name.isdigit() for one in kept)
    assert not any("passwd" in one.name for one in found)
    assert found[-1].reason == "deeper than 3 folders"


def test_the_network_gets_a_second_try(hostile: type[Hostile]) -> None:
    hostile.failures = 2
    found = list(fetch("hostile://run", ANY, Limits(depth=0, pause=0.0)))
    assert found[0].file is not None and found[0].file.read_bytes() == LOG
    hostile.failures, hostile.opened = 99, 0
    found = list(fetch("hostile://run", ANY, Limits(depth=0, pause=0.0)))
    assert found[0].file is None and (found[0].reason or "").startswith("cannot be fetched: the server")
    assert hostile.opened == 3


def why(url: str) -> str:
    with pytest.raises(Unreachable) as caught:
        list(fetch(url, ANY, QUICK))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_why_a_url_cannot_be_read(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert why("memory://nothing") == "memory://nothing: no such bucket, folder or file"
    assert "no protocol is called 'quux'" in why("quux://x")
    assert "within URLs" in why("zip://a::memory://x")

    def missing(url: str) -> Any:
        raise ImportError("Install gcsfs to access Google Storage")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    assert why("gs://u:pw@bucket/x") == "gs://bucket/x: gs:// needs one more package: pip install gcsfs"
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install '.[remote]'" in why("s3://bucket/x")


def test_the_command_line_says_it_in_one_line(memory: Any) -> None:
    result = CliRunner().invoke(main, ["analyze", "memory://who:secret@nothing"])
    assert result.exit_code == 2
    assert "no such bucket" in result.output and "secret" not in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def copyfile(self, source: Any, outputfile: Any) -> None:
            with contextlib.suppress(ConnectionError):  # a reader that needs the beginning only
                super().copyfile(source, outputfile)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()


def test_http_folders_and_files(server: str, tmp_path: Path) -> None:
    (tmp_path / "run" / "rank 1").mkdir(parents=True)
    (tmp_path / "run" / "rank0.log").write_bytes(LOG)
    (tmp_path / "run" / "rank 1" / "x.log").write_bytes(FAILED)
    run = find(f"{server}/run/")
    assert {s.path: s.file.read_bytes() for s in run.sources} == {"rank0.log": LOG, "rank 1/x.log": FAILED}
    (one,) = find(f"{server}/run/rank0.log?token=abcdefgh").sources
    assert one.path == "rank0.log"
    assert "no such" in why(f"{server}/run/none.log")


def test_of_a_server_without_ranges_checkpoints_give_their_beginning(server: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rank0.log").write_bytes(FAILED * 900)
    (tmp_path / "run" / "ck.pt").write_bytes(torch_zip(400_000))
    limits = Limits(ends=70_000, small=1_000, pause=0.0)
    found = {one.name: one for one in fetch(f"{server}/run", ANY, limits)}
    log, checkpoint = found["rank0.log"], found["ck.pt"]
    assert log.file is not None and log.file.read_bytes() == FAILED * 900
    assert checkpoint.file is not None and checkpoint.gap == (70_000, checkpoint.file.stat().st_size)
    assert check(checkpoint.file, "ck.pt", checkpoint.gap) is None


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """An S3 server of moto on this machine, spoken to over HTTP."""
    server_module = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    import logging

    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing-key",
        "AWS_SECRET_ACCESS_KEY": "testing-secret-0123",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="runs")
        yield client
        server.stop()


def objects(client: Any, prefix: str, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        client.put_object(Bucket="runs", Key=f"{prefix}/{name}", Body=data)


def test_a_run_in_s3(bucket: Any) -> None:
    whole = torch_zip(9 << 20)
    files = {"logs/rank0.log": LOG, "logs/rank1.log": FAILED, "step-40.pt": whole, "w.parquet": b"x", "t.py": b"x=1\n"}
    objects(bucket, "a", files | {"cut.pt": whole[:-90]})
    found = analyse(["s3://runs/a"])
    assert found.run.path == "s3://runs/a"
    assert found.verdict is Verdict.FAILED
    assert found.findings[0].evidence[0].file == "logs/rank1.log"
    told = {c.path: c for c in found.coverage}
    assert set(told) == {*files, "cut.pt"}
    assert "were not fetched" in (told["step-40.pt"].reason or "")
    assert (told["step-40.pt"].bytes, told["step-40.pt"].status) == (len(whole), Status.PARTIAL)
    assert "cut off" in (told["cut.pt"].reason or "")
    assert told["w.parquet"].status is Status.SKIPPED


def test_s3_names_of_one_object_and_of_none(bucket: Any) -> None:
    objects(bucket, "b", {"rank3.log": LOG})
    (source,) = find("s3://runs/b/rank3.log").sources
    assert (source.path, source.identity.rank) == ("rank3.log", 3)
    assert why("s3://runs/nowhere") == "s3://runs/nowhere: no such bucket, folder or file"
    assert why("s3://not-a-bucket/x") == "s3://not-a-bucket/x: no such bucket, folder or file"


def test_s3_without_credentials(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(NothingToRead, match="no credentials were found"):
        find("s3://runs/a")
    s3fs.S3FileSystem.clear_instance_cache()


def test_jobs_in_s3_are_triaged_by_their_rows_and_known_again(bucket: Any, tmp_path: Path) -> None:
    ranks = {f"grid_node{n}.log": LOG for n in (0, 1)} | {f"wide_node{n}.log": LOG for n in (0, 1)}
    objects(bucket, "sweep", {"a/rank0.log": LOG, "b/rank0.log": FAILED, **{f"flat/{k}": v for k, v in ranks.items()}})
    command = ["triage", "s3://runs/sweep", "--store", str(tmp_path / "store"), "-j", "1", "--format", "json"]
    told = [json.loads(CliRunner().invoke(main, command).stdout) for _ in range(2)]
    found = {row["path"].removeprefix("s3://runs/sweep/"): row["verdict"] for row in told[0]["jobs"]}
    assert found.pop("b") == "failed" and set(found) == {"a", "flat/grid", "flat/wide"}
    assert told[0]["jobs"] == told[1]["jobs"]


@pytest.mark.slow
def test_jobs_in_s3_have_the_same_rows_on_ray(bucket: Any, tmp_path: Path) -> None:
    """Workers read the bucket themselves, by the credentials of their environment."""
    ray = pytest.importorskip("ray")
    from forensics.triage.batch import Options, local_engine, triage
    from forensics.triage.pool import Limits as JobLimits
    from forensics.triage.rays import ray_engine

    objects(bucket, "rays", {f"{job}/rank0.log": LOG + FAILED * (job in "bd") for job in "abcd"})
    found = {}
    try:
        for name, engine in (("local", local_engine(1, JobLimits())), ("ray", ray_engine(2, JobLimits()))):
            options = Options(store=tmp_path / name, engine=engine, limits=JobLimits())
            found[name] = triage(["s3://runs/rays"], options).results
    finally:
        ray.shutdown()
    assert found["local"] == found["ray"]
    assert [row.failed for row in found["ray"]] == [False, True, False, True]
