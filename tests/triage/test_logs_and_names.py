"""What is a log though its name does not say so, and which jobs names of further tools show."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from pathlib import Path

import pytest

from forensics.model import Status
from forensics.triage.batch import Options, triage
from forensics.triage.folders import settings
from forensics.triage.jobs import Notes, find
from forensics.triage.model import Batch, Job
from forensics.triage.pool import Limits
from forensics.triage.rays import quiet_threads
from tests.triage.test_batch import here

STEPS = "".join(f"2026-11-20 {h:02d}:00:00,000 INFO train: step {h * 50} loss {2.0 / h:.3f}\n" for h in (1, 2, 3))
DONE = "2026-11-20 03:00:01,000 INFO train: Training finished.\n"
FAILED = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nKeyError: 'x'\n"


def write(root: Path, text: str, *names: str) -> Path:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return root


def jobs(root: Path) -> list[Job]:
    return list(find([str(root)]))


def paths(root: Path) -> list[str]:
    return [Path(job.path).relative_to(root).as_posix() for job in jobs(root)]


def batch_of(tmp_path: Path, root: Path) -> Batch:
    return triage([str(root)], Options(store=tmp_path / "store", engine=here, limits=Limits()))


@pytest.mark.parametrize(
    "names",
    [
        ("trial-41.txt", "trial-44.txt", "trial-47.txt"),
        ("ts-out.Xt0Y8e", "ts-out.Zk3Fq1", "ts-out.b9sKw0"),
        ("a/000000.gz", "b/000000.gz", "c/000000.gz"),
        ("x/alloc/logs/train.stdout.0", "y/alloc/logs/train.stdout.0", "z/alloc/logs/train.stdout.0"),
    ],
)
def test_what_holds_a_training_is_a_log_under_any_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert len(jobs(write(tmp_path / "jobs", STEPS, *names))) == 3


def test_what_a_log_collector_wrapped_is_a_log(tmp_path: Path) -> None:
    records = [
        {"insertId": str(n), "jsonPayload": {"message": line}, "timestamp": "2026-11-20T13:00:50Z", "logName": "x/y"}
        for n, line in enumerate(STEPS.splitlines())
    ]
    write(tmp_path, "".join(f"{json.dumps(record)}\n" for record in records), "lr1.jsonl", "wd2.jsonl", "bs3.jsonl")
    assert len(jobs(tmp_path)) == 3


def test_texts_that_no_run_printed_are_no_logs(tmp_path: Path) -> None:
    write(tmp_path / "texts", "Once upon a time\n" * 9, "a.txt", "b.txt", "c.txt")
    assert paths(tmp_path / "texts") == ["."]
    write(tmp_path / "code", STEPS, "a.py", "b.py", "c.py")  # the analysis reads none of these
    assert paths(tmp_path / "code") == ["."]


def test_a_file_of_another_name_is_none_beside_logs_that_are_named_so(tmp_path: Path) -> None:
    write(tmp_path, STEPS, "run/train.log", "run/a.txt", "run/b.txt")
    assert paths(tmp_path / "run") == ["."]


def test_logs_under_words_of_their_own_are_jobs_at_any_depth(tmp_path: Path) -> None:
    words = ("base.log", "noaug.log", "nodrop.log")
    write(tmp_path, STEPS, *(f"p/{data}/{word}" for data in ("cifar", "svhn") for word in words))
    assert len(jobs(tmp_path)) == 6
    write(tmp_path, STEPS, "p/cifar/config.yaml")  # of one run
    found = [job for job in jobs(tmp_path) if job.path.endswith("cifar")]
    assert len(found) == 1 and len(found[0].guessed) == 3


def test_kinds_of_logs_deeper_down_are_of_one_run(tmp_path: Path) -> None:
    write(tmp_path, STEPS, "p/a/train.log", "p/a/eval.log", "p/b/train.log", "p/b/eval.log")
    assert [(job.path[-1], job.guessed) for job in jobs(tmp_path)] == [("a", ()), ("b", ())]
    write(tmp_path, STEPS, *(f"hq/job-{n}/0.{stream}" for n in (3, 4) for stream in ("stdout", "stderr")))
    assert [job.guessed for job in jobs(tmp_path / "hq")] == [(), ()]  # two streams of one


def test_what_is_unsure_of_the_only_part_is_so_of_the_whole(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    write(root, STEPS + DONE, "runs/lr2.log", "runs/lr3.log")
    write(root, STEPS + FAILED, "runs/lr1.log")
    (job,) = jobs(root)
    assert len(job.guessed) == 3
    (result,) = batch_of(tmp_path, root).results
    assert result.verdict == "failed" and "runs/lr1.log" in result.summary


def test_the_only_folder_is_asked_where_nothing_is_a_log(tmp_path: Path) -> None:
    state = '{"global_step": 5, "log_history": []}'
    write(tmp_path, state, *(f"out/{model}/checkpoint-5/trainer_state.json" for model in ("phi", "qwen", "llama")))
    assert sorted(paths(tmp_path)) == ["out/llama", "out/phi", "out/qwen"]
    write(tmp_path, STEPS, "out/phi/train.log")
    assert paths(tmp_path) != ["out/llama", "out/phi", "out/qwen"] or len(jobs(tmp_path)) == 3


def test_a_machine_in_the_name_behind_a_job_id(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    ecc = STEPS + FAILED.replace("KeyError: 'x'", "RuntimeError: CUDA error: uncorrectable ECC error encountered")
    write(root, STEPS + DONE, "logs/pre-55000-gpu-11.out", "logs/pre-55002-gpu-12.out")
    write(root, ecc, "logs/pre-55004-gpu-17.out")
    results = {Path(r.path).name: r for r in batch_of(tmp_path, root).results}
    assert {name: r.nodes for name, r in results.items()} == {
        "55000": ("gpu-11",),
        "55002": ("gpu-12",),
        "55004": ("gpu-17",),
    }
    assert (results["55004"].node, results["55000"].node) == ("gpu-17", None)
    assert "nodes" not in results["55004"].labels
    write(tmp_path / "steps", STEPS, "sft-10000-lr5.out", "sft-20000-lr5.out")
    assert not any("nodes" in job.labels for job in jobs(tmp_path / "steps"))


def test_what_pbs_has_in_its_spool(tmp_path: Path) -> None:
    write(tmp_path, STEPS, *(f"9182{n}.pbs-srv01.{end}" for n in (2, 3) for end in ("OU", "ER")), "91824[3].srv.hpc.OU")
    assert [(job.path.rpartition("/")[2], len(job.parts)) for job in jobs(tmp_path)] == [
        ("91822", 2),
        ("91823", 2),
        ("91824_3", 1),
    ]


def test_accounting_beside_an_array_tells_of_each_task(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    write(root, STEPS, *(f"slurm-9100_{n}.out" for n in range(3)))
    table = "JobID|JobName|State|ExitCode\n9100_0|x|COMPLETED|0:0\n9100_1|x|OUT_OF_MEMORY|0:125\n9100_2|x|TIMEOUT|0:0\n"
    write(root, table, "sacct.txt")
    write(root, "9100 files were read\n", "notes.txt")
    notes = Notes()
    assert [len(job.parts) for job in find([str(root)], notes=notes)] == [2, 2, 2]
    assert any("notes.txt" in line and "sacct" not in line for line in notes.lines())
    roots = [r.root for r in batch_of(tmp_path, root).results]
    assert roots == [None, "host-oom-cgroup", "scheduler-time-limit"]


def test_programs_of_a_supervisor_and_jobs_of_a_ray_session(tmp_path: Path) -> None:
    write(tmp_path, STEPS, *(f"s/w_{n}-{s}---supervisor-b8f_2{n}.log" for n in (0, 1) for s in ("stdout", "stderr")))
    write(tmp_path, "spawned\n", "s/supervisord.log")
    assert [(len(job.parts), job.layout) for job in jobs(tmp_path / "s")] == [(2, "supervisor")] * 2
    write(
        tmp_path, STEPS, "r/logs/job-driver-raysubmit_a1.log", "r/logs/job-driver-raysubmit_b2.log", "r/logs/raylet.out"
    )
    assert [job.path.rpartition("/")[2] for job in jobs(tmp_path / "r")] == ["raysubmit_a1", "raysubmit_b2"]
    write(tmp_path, STEPS, "one/job-driver-raysubmit_a1.log", "one/raylet.out")
    assert paths(tmp_path / "one") == ["."]


def test_ranks_under_the_names_of_their_jobs(tmp_path: Path) -> None:
    write(tmp_path, STEPS, *(f"a/{job}_rank{n}.log" for job in ("bert", "t5") for n in (0, 1)))
    assert [len(job.parts) for job in jobs(tmp_path / "a")] == [2, 2]
    write(tmp_path, STEPS, *(f"b/{job}_rank{n}.log" for job in ("train", "eval") for n in (0, 1)))
    write(tmp_path, STEPS, "c/bert_rank0.log", "c/t5_rank1.log")
    assert paths(tmp_path / "b") == paths(tmp_path / "c") == ["."]


def test_a_pods_log_and_what_was_kept_of_it_before(tmp_path: Path) -> None:
    write(tmp_path, STEPS, "llm-a.log", "llm-a.previous.log", "llm-b.log", "llm-c.log")
    assert [len(job.parts) for job in jobs(tmp_path)] == [2, 1, 1]


def test_the_schedulers_log_and_the_jobs_own_folder_are_one(tmp_path: Path) -> None:
    write(tmp_path, STEPS, *(f"slurm_logs/sweep_9911_{n}.out" for n in range(3)))
    write(tmp_path, "x: 1\n", *(f"outputs/9911_{n}/.hydra/config.yaml" for n in range(3)))
    write(tmp_path, STEPS, *(f"outputs/9911_{n}/train.log" for n in range(3)))
    found = jobs(tmp_path)
    assert [(len(job.parts), job.layout, job.labels["array_task"]) for job in found] == [
        (2, "hydra", str(n)) for n in range(3)
    ]


def test_streams_of_one_job_that_are_given_by_name(tmp_path: Path) -> None:
    write(tmp_path, STEPS, *(f"slurm-9300_{n}.{end}" for n in range(2) for end in ("err", "out")))
    given = sorted(map(str, tmp_path.iterdir()))
    assert [(Path(job.path).name, len(job.parts)) for job in find(given)] == [("9300_0", 2), ("9300_1", 2)]
    assert [(Path(job.path).name, len(job.parts)) for job in find(given[::2])] == [
        ("slurm-9300_0.err", 1),
        ("slurm-9300_1.err", 1),
    ]


def test_archives_beside_one_that_cannot_be_unpacked(tmp_path: Path) -> None:
    write(tmp_path, STEPS, "job_1.tar.gz", "job_2.tgz", "job_3.7z")
    write(tmp_path, "the third is of another machine\n", "notes.txt")
    assert paths(tmp_path) == ["job_1.tar.gz", "job_2.tgz"]
    write(tmp_path, STEPS, "train.log")
    assert paths(tmp_path) == ["."]


def test_folders_of_systems_and_package_managers_are_no_jobs(tmp_path: Path) -> None:
    write(tmp_path, STEPS, "bert/train.log", "clip/train.log")
    write(tmp_path, "x", "@eaDir/a.db", "__MACOSX/b", "lost+found/c", "miniconda3/bin/d", "proj.egg-info/PKG-INFO")
    assert paths(tmp_path) == ["bert", "clip"]


def test_what_another_thread_prints_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet_threads():
        thread = threading.Thread(target=print, args=("(raylet) A worker died",))
        thread.start()
        thread.join()
        print("row")
    print("end", file=sys.stdout)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("row\nend\n", "(raylet) A worker died\n")


def test_shells_that_find_no_program_fail_and_one_that_went_on_did_not(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    write(root, "/var/spool/slurmd/job1/slurm_script: line 14: conda: command not found\n", "a/slurm.out")
    write(root, "run.sh: line 3: nvidia-smi: command not found\n" + STEPS, "b/slurm.out")
    write(root, "run.sh: line 3: nvidia-smi: command not found\n" + STEPS + DONE, "c/slurm.out")
    write(root, STEPS, "d/stdout.log", "e/stdout.log")
    write(root, "137\n", "d/exit_code")
    write(root, "0\n", "e/exit_code")
    found = {Path(r.path).name: (r.verdict, r.root) for r in batch_of(tmp_path, root).results}
    assert found == {
        "a": ("failed", "command-not-found"),
        "b": ("healthy", None),
        "c": ("healthy", None),
        "d": ("failed", "insufficient-evidence"),
        "e": ("healthy", None),
    }


def test_what_quotes_other_runs_is_no_evidence_beside_logs(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    quoted = "# FAQ\n```\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n```\n"
    write(root, STEPS + DONE, *(f"{name}/train.log" for name in "abcdef"))
    write(root, quoted, "a/notes.md", "b/code/docs/errors.txt", "c/code/examples/output.log")
    write(root, quoted, "d/code/tests/data/expected.txt", "e/wiki/Faq.md", "f/docs/x.log")
    write(root, "pass\n", "f/train.py")
    assert {r.verdict for r in batch_of(tmp_path, root).results} == {"healthy"}


def test_what_is_named_as_a_stage_or_stands_alone_is_evidence(tmp_path: Path) -> None:
    from forensics.engine.pipeline import analyse_with_data

    ended = STEPS + FAILED
    write(tmp_path, STEPS + DONE, "run/train.log")
    write(tmp_path, ended, "run/test/test.log")
    write(tmp_path, "pass\n", "run/train.py")
    write(tmp_path, ended, "issue/issue.md")
    for name in ("run", "issue"):
        found = analyse_with_data([str(tmp_path / name)])
        assert len([row for row in found.diagnosis.coverage if row.status is Status.READ]) == 1 + (name == "run")
        assert found.diagnosis.verdict.value == "failed"


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("resnet50_lr0.1_bs256_s3", {"lr": "0.1", "bs": "256"}),
        ("vit-lr1e-4-wd0.05", {"lr": "1e-4", "wd": "0.05"}),
        ("lr=0.1,bs=8", {"lr": "0.1", "bs": "8"}),
        ("resnet50", {}),
        ("lr_finder", {}),
        ("color3_bs", {}),
        ("seed_3", {}),
        ("lr3", {}),
    ],
)
def test_settings_that_are_written_into_a_name(name: str, stated: dict[str, str]) -> None:
    assert settings(name) == stated


ALONE = "cuda:0 world_size=1 rank 0 of 1\n"
OF_TWO = "rank {rank} of world size 2\n"


def test_ranks_under_the_names_of_their_machines_are_one_job(tmp_path: Path) -> None:
    for job in ("gpt-88101", "gpt-88140"):
        for rank, host in enumerate(("n001", "n002")):
            write(tmp_path / "logs" / job, OF_TWO.format(rank=rank) + STEPS, f"{host}_{rank}.log")
    assert paths(tmp_path / "logs") == ["gpt-88101", "gpt-88140"]
    assert paths(tmp_path) == ["logs/gpt-88101", "logs/gpt-88140"]


def test_ranks_behind_job_and_machine_are_one_job(tmp_path: Path) -> None:
    write(tmp_path, STEPS, *(f"gpt-{job}-n01{n}-{n}.out" for job in (88101, 88140) for n in (2, 3)))
    assert [(Path(job.path).name, len(job.parts)) for job in jobs(tmp_path)] == [("88101", 2), ("88140", 2)]


@pytest.mark.parametrize("name", ["gpu{}.log", "agent_gpu{}.log", "worker{}.log", "proc_{}.log"])
def test_logs_of_slots_that_say_that_they_are_alone_are_jobs(tmp_path: Path, name: str) -> None:
    write(tmp_path, ALONE + STEPS + DONE, *(name.format(n) for n in range(4)))
    assert len(jobs(tmp_path)) == 4


@pytest.mark.parametrize("name", ["gpu{}.log", "gpu{}_lr1e-3.log", "worker{}.log", "log_gpu_{}.txt"])
def test_logs_of_slots_that_say_nothing_are_one_job_with_a_note_that_hides_no_failure(
    tmp_path: Path, name: str
) -> None:
    root = write(tmp_path / "run", STEPS + DONE, *(name.format(n) for n in range(3)))
    write(root, STEPS + FAILED, name.format(3))
    made = batch_of(tmp_path, root)
    assert [result.verdict for result in made.results] == ["failed"]
    assert any("4 logs of" in note for note in made.notes)


def test_logs_of_workers_that_tell_their_ranks_are_one_job_without_a_note(tmp_path: Path) -> None:
    for n in range(2):
        write(tmp_path, OF_TWO.format(rank=n) + STEPS, f"worker{n}.log")
    notes = Notes()
    assert len(list(find([str(tmp_path)], notes=notes))) == 1 and not notes.lines()


@pytest.mark.parametrize("name", ["rank_{}", "lora_rank_{}", "rank{}"])
def test_ranks_of_adapters_are_jobs(tmp_path: Path, name: str) -> None:
    write(tmp_path, STEPS, *(f"{name.format(n)}/train.log" for n in (4, 8, 16, 64)))
    assert len(jobs(tmp_path)) == 4


@pytest.mark.parametrize("numbers", [(0, 8, 16), (1, 2, 3), (5, 6, 7)])
def test_ranks_of_processes_are_one_job(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    write(tmp_path, STEPS, *(f"rank_{n}/train.log" for n in numbers))
    assert len(jobs(tmp_path)) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("try_1.log", "try_2.log"),
        ("attempt=1.log", "attempt=2.log"),
        ("try=1/train.log", "try=2/train.log"),
        ("run-attempt-0/out.log", "run-attempt-1/out.log"),
    ],
)
def test_attempts_are_one_job_that_the_last_one_got_over(tmp_path: Path, names: tuple[str, str]) -> None:
    root = tmp_path / "runs"
    write(root / "job", STEPS + FAILED, names[0])
    write(root / "job", STEPS.replace("2026-11-20", "2026-11-21") + DONE.replace("11-20", "11-21"), names[1])
    write(root / "other", STEPS + DONE, "train.log")
    made = batch_of(tmp_path, root)
    assert [(Path(r.path).name, r.verdict) for r in made.results] == [("job", "recovered"), ("other", "healthy")]


def test_numbered_seeds_are_jobs_also_without_a_gap(tmp_path: Path) -> None:
    write(tmp_path, STEPS + DONE, "seed1.log", "seed2.log", "seed3.log")
    assert len(jobs(tmp_path)) == 3


def test_trials_are_jobs_below_the_given_folder_too(tmp_path: Path) -> None:
    write(tmp_path / "experiment_12", STEPS, "trial_40_logs.txt", "trial_41_logs.txt", "trial_42_logs.txt")
    assert len(jobs(tmp_path)) == 3
    write(tmp_path / "parts" / "run", STEPS, "part_40_logs.txt", "part_41_logs.txt", "part_42_logs.txt")
    assert len(jobs(tmp_path / "parts")) == 1


def notebook(text: str) -> str:
    output = {"output_type": "stream", "name": "stdout", "text": text}
    cell = {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "train()", "outputs": [output]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_copies_of_one_notebook_are_a_job_each(tmp_path: Path) -> None:
    write(tmp_path / "sweep", notebook(STEPS + FAILED), "out_0.ipynb", "out_1.ipynb", "out_2.ipynb")
    assert paths(tmp_path / "sweep") == ["out_0", "out_1", "out_2"]
    write(tmp_path / "run", notebook(STEPS), "train.ipynb", "eval.ipynb")
    assert len(jobs(tmp_path / "run")) == 1


def test_logs_under_the_names_of_pods_are_told_apart_by_job(tmp_path: Path) -> None:
    write(tmp_path, STEPS, *(f"bert-{job}-{role}-0.log" for job in (3, 4) for role in ("master", "worker")))
    assert [(Path(job.path).name, len(job.parts)) for job in jobs(tmp_path)] == [("bert-3", 2), ("bert-4", 2)]


def test_roles_of_one_run_are_one_job(tmp_path: Path) -> None:
    write(tmp_path, STEPS, "train-master-0.log", "train-worker-0.log", "eval-worker-0.log")
    assert len(jobs(tmp_path)) == 1
