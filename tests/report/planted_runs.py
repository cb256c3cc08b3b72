"""Runs whose every file tells who ran them and where, each thing as the program writes it that prints it there.

Nobody and nothing here is real. What must not leave stands in `NAMES`; several places give each of them away.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

USER, MATE, MAIL = "zjdoe", "qkowalski", "jane.q.doe@mail.zebra-labs.com"
HOST, FQDN, OTHER, LOGIN = "zeta17", "zeta17.cluster9.zebra-labs.com", "quokka09", "wallaby-login2"
IP, IP6, MAC = "10.147.23.9", "2001:db8:85a3::8a2e:370:7334", "00:1b:44:11:3a:b7"
POD, NODE, SPACE = "zorilla-train-worker-3", "gke-zoo-a100-pool-1a2b3c4d-x9y8", "okapi-team"
UUID, RAY = "3f2b8c1d-7a64-4e19-9b05-d2c6e8f01a37", "9d41f7c2a8b3e6d5049e1c7fb2a86d30f5e9c4b7a1d80362"
GROUP, ENTITY, PROJECT, RUN = "zebralabs", "zebra-labs-research", "topsecret-llm", "q7w8e9r0"
BUCKET, REPO = "zeta-secret-bucket", "zebra-labs/secret-llm"
TOKEN, PASSWORD, KEY = "hf_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7x", "Zx9Yw8Vu7T-pw", "AKIA" + "QW3RTY7UIOP1ASDF"
SIGNATURE = "9c" * 32
NAMES = (
    USER, MATE, MAIL, HOST, FQDN, OTHER, LOGIN, IP, IP6, MAC, POD, NODE, SPACE, UUID, RAY, GROUP, ENTITY, PROJECT, RUN,
    BUCKET, REPO, TOKEN, PASSWORD, KEY, SIGNATURE, "zebra-labs",
)  # fmt: skip

_T = "2026-11-27T20:49:"


def _lines(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def _trace(rank: int | None, last: str, *frames: tuple[str, int, str, str]) -> list[str]:
    said = f"[rank{rank}]: " if rank is not None else ""
    lines = [f"{said}Traceback (most recent call last):"]
    for file, number, function, code in frames:
        lines += [f'{said}  File "{file}", line {number}, in {function}', f"{said}    {code}"]
    return [*lines, said + last]


def exception(run: Path) -> Path:
    """A KeyError of one rank under torchrun, with error.json, the launcher's table and run files of W&B and Hydra."""
    home = f"/home/{USER}/work/{PROJECT}"
    frames = (
        (f"{home}/train.py", 88, "main", f'login(token="{TOKEN}")'),
        (f"{home}/data.py", 12, "__getitem__", f'return self.rows["{MAIL}"]'),
    )
    _lines(
        run / "logs" / f"none_{HOST}" / "attempt_0" / "1" / "stderr.log",
        f"{_T}10 {HOST}:4242:4300 [0] NCCL INFO Bootstrap : Using eth0:{IP}<0>",
        f"{_T}10 wandb: Currently logged in as: {MATE} ({ENTITY}) to https://api.wandb.ai",
        f"{_T}11 wandb: View run at https://wandb.ai/{ENTITY}/{PROJECT}/runs/{RUN}",
        f"{_T}12 loading s3://{BUCKET}/data?X-Amz-Signature={SIGNATURE} with {KEY}",
        *_trace(1, f"KeyError: '{MAIL}'", *frames),
    )
    _lines(run / "logs" / f"none_{HOST}" / "attempt_0" / "0" / "stdout.log", f"{_T}10 step 3 loss 2.1", "step 4 loss 2")
    record = {
        "message": {
            "message": f"KeyError: '{MAIL}'",
            "extraInfo": {"py_callstack": "\n".join(_trace(None, f"KeyError: '{MAIL}'", *frames)), "timestamp": "1"},
        }
    }
    _lines(run / "logs" / f"none_{HOST}" / "attempt_0" / "1" / "error.json", json.dumps(record))
    _lines(
        run / "launcher.log",
        f"{USER}@{LOGIN}:~$ torchrun --rdzv-endpoint={HOST}:29500 {home}/train.py --hub_model_id {REPO} --password {PASSWORD}",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-27_20:49:24",
        f"  host      : {FQDN}",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : 1 (pid: 4242)",
        f"  error_file: /tmp/torchelastic_{USER}/none_{HOST}/attempt_0/1/error.json",
    )
    folder = run / "wandb" / f"run-20261127_204924-{RUN}" / "files"
    metadata = {
        "host": OTHER, "username": USER, "email": MAIL, "program": f"{home}/train.py", "root": home, "executable": f"/home/{USER}/env/bin/python",
        "args": ["--password", PASSWORD, "--hub_model_id", REPO, "--lr", "0.1"], "gpu": "NVIDIA H100", "gpu_count": 8, "python": "3.11.2",
        "git": {"remote": f"git@github.com:{REPO}.git", "commit": "1234567890abcdef1234567890abcdef12345678"},
    }  # fmt: skip
    _lines(folder / "wandb-metadata.json", json.dumps(metadata))
    config = f"lr:\n  value: 0.1\nhub_token:\n  value: {TOKEN}\noutput_dir:\n  value: /scratch/{USER}/out\nowner:\n  value: {MATE}\ndata:\n  value: s3://{BUCKET}/x\n"
    _lines(folder / "config.yaml", config)
    _lines(
        run / ".hydra" / "config.yaml",
        f"user: {USER}",
        "db:",
        f"  password: {PASSWORD}",
        f"  url: postgres://{MATE}:{PASSWORD}@{FQDN}/runs",
        f"master_addr: {OTHER}",
        f"wandb_entity: {ENTITY}",
        f"project: {PROJECT}",
        f"bucket: s3://{BUCKET}/ckpt",
    )
    _lines(run / ".hydra" / "overrides.yaml", f"- data.root=/home/{USER}/data", f"- hf_token={TOKEN}")
    _lines(
        run / "env.txt",
        f"USER={USER}",
        f"HOSTNAME={HOST}",
        f"HF_TOKEN={TOKEN}",
        f"MASTER_ADDR={FQDN}",
        "NCCL_DEBUG=INFO",
        f"SLURM_JOB_ACCOUNT={GROUP}",
        f"WANDB_ENTITY={ENTITY}",
        f"SSH_CONNECTION={IP} 50022 {IP} 22",
        f"PATH=/home/{USER}/bin:/usr/bin",
    )
    return run


def hang(run: Path) -> Path:
    """Ranks of one collective wait for a rank that is parked: Flight Recorder, NCCL's log, a stack dump."""

    def entry(seq: int, state: str) -> dict[str, Any]:
        return {
            "frames": [
                {"name": "all_reduce", "filename": "/opt/conda/lib/python3.11/site-packages/torch/distributed/c10d.py", "line": 2806},
                {"name": f"step_{USER}", "filename": f"/home/{USER}/{PROJECT}/train.py", "line": 88},
            ],
            "record_id": seq, "pg_id": 0, "process_group": ("0", f"pg_of_{HOST}"), "collective_seq_id": seq, "p2p_seq_id": 0,
            "op_id": seq, "profiling_name": "nccl:all_reduce", "time_created_ns": 1_795_812_564_000_000_000 + seq * 10**9,
            "input_sizes": [[6896]], "input_dtypes": ["Float"], "output_sizes": [[6896]], "output_dtypes": ["Float"],
            "state": state, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False,
        }  # fmt: skip

    dumps = run / f"fr_{HOST}"
    dumps.mkdir(parents=True)
    for rank in range(4):
        last = 6 if rank == 2 else 7
        calls = [entry(seq, "completed") for seq in range(1, last)] + [
            entry(last, "completed" if rank == 2 else "scheduled")
        ]
        config = {"0": {"name": "0", "desc": f"pg_of_{HOST}", "ranks": "[0, 1, 2, 3]"}}
        dump = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": calls, "host_name": HOST}
        (dumps / f"nccl_trace_{HOST}_rank_{rank}").write_bytes(pickle.dumps(dump, 2))
        _lines(
            run / f"{HOST}_rank{rank}.log",
            f"{HOST}:42{rank}:43{rank} [{rank}] NCCL INFO Bootstrap : Using eth0:{IP}<0> [{IP6}] {MAC}",
            f"{HOST}:42{rank}:43{rank} [{rank}] NCCL INFO comm 0x55 rank {rank} nranks 4 cudaDev {rank} busId 1b000 commId 0xab - Init COMPLETE",
            *(f"{_T}{10 + step} step {step} loss {3 - step / 10}" for step in range(1, 7)),
            *(
                [
                    f"[rank{rank}]:[E1127 20:59:20.123456789 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
                    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=6896, NumelOut=6896, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
                ]
                if rank != 2
                else []
            ),
        )
    _lines(
        run / f"py-spy-{HOST}-2.txt",
        f"Process 4244: /home/{USER}/env/bin/python /home/{USER}/{PROJECT}/train.py --hf-token {TOKEN} --master_addr {FQDN}",
        f"Python v3.11.2 (/home/{USER}/env/bin/python3.11)",
        "",
        'Thread 4244 (idle): "MainThread"',
        f"    read (/home/{USER}/{PROJECT}/nfs.py:20)",
        f"    load_{MATE} (/mnt/home/{MATE}/lib/loader.py:77)",
    )
    return run


def killed(run: Path) -> Path:
    """A rank that the kernel's memory killer ended; its log, the journal of its host, Slurm's words and its accounting."""
    _lines(
        run / f"slurm-{OTHER}-42.out",
        f"SLURM_JOB_NODELIST={OTHER},zebra[001-064]",
        f"JobId=42 JobName={PROJECT} UserId={USER}(1001) GroupId={GROUP}(2002) Account={GROUP} BatchHost={OTHER}",
        *(f"{_T}{10 + step} [rank3]: step {step} loss 2.0" for step in range(5)),
        f"slurmstepd-{OTHER}: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been OOM Killed.",
        f"srun: error: {OTHER}: task 3: Out Of Memory",
        f"srun: error: {HOST}: task 0: Terminated",
        f"slurmstepd: error: *** STEP 42.0 ON {OTHER} CANCELLED AT 2026-11-27T20:49:30 ***",
    )
    _lines(
        run / f"kern-{OTHER}.log",
        f"Nov 27 20:49:20 {OTHER} kernel: [9000.1] python invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0",
        f"Nov 27 20:49:20 {OTHER} kernel: [9000.2] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=user-{USER},mems_allowed=0,"
        f"global_oom,task_memcg=/user.slice/{USER},task=train-{USER},pid=4245,uid=1001",
        f"Nov 27 20:49:20 {OTHER} kernel: [9000.3] Out of memory: Killed process 4245 (train-{USER}) total-vm:90000000kB, "
        "anon-rss:80000000kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:1000kB oom_score_adj:0",
        f"Nov 27 20:49:21 {OTHER} sshd[99]: Accepted publickey for {MATE} from {IP} port 50022 ssh2",
    )
    _lines(
        run / "sacct.txt",
        "       JobID    JobName  Partition    Account      User   NodeList      State ExitCode",
        f"          42 {PROJECT} gpu {GROUP} {USER} {OTHER} OUT_OF_ME+ 0:125",
    )
    return run


def cluster(run: Path) -> Path:
    """What Kubernetes and Ray say of a node that went away."""
    _lines(
        run / "events.txt",
        f"20m Normal Scheduled pod/{POD} Successfully assigned {SPACE}/{POD} to {NODE}",
        f"5m Warning Evicted pod/{POD} The node was low on resource: memory. Container pytorch was using 90Gi.",
        f"5m Warning NodeNotReady pod/{POD} Node is not ready",
        f"[pod/{POD}/pytorch] {_T}20 step 7 loss 2.0",
        f"kubectl -n {SPACE} describe pod {POD}",
    )
    _lines(
        run / f"{POD}.log",
        *(f"{_T}{10 + step} step {step} loss 2.0" for step in range(5)),
        f"(train_fn pid=4242, ip={IP}) loading gs://{BUCKET}/tokens",
        f"(raylet, ip={IP}) [2026-11-27 20:49:20,123 E 1 1] A worker died or was killed while executing a task by an unexpected system error."
        f" To troubleshoot the problem, check the logs for the dead worker. Worker ID: {RAY} Node ID: {RAY} Worker IP address: {IP}"
        f" Worker port: 10005 Worker PID: 4242 Worker exit type: SYSTEM_ERROR",
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
        f"\tclass_name: Trainer\n\tactor_id: {RAY}\n\tpid: 4242\n\tname: {USER}-trainer\n\tnamespace: {UUID}\n\tip: {IP}",
        f"The actor is dead because its node has died. Node Id: {RAY}",
        f"raylet died on node {NODE} ({UUID}), see /tmp/ray_{USER}/session_latest/logs/raylet.out",
    )
    return run


def _record(payload: bytes) -> bytes:
    from forensics.parsers.tensorboard.checksums import masked_crc

    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + struct.pack("<I", masked_crc(payload))


def _value(tag: str, number: float) -> bytes:
    name = tag.encode()
    inner = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", number)
    return b"\x0a" + bytes([len(inner)]) + inner


def _event(step: int, summary: bytes) -> bytes:
    body = b"\x09" + struct.pack("<d", 1_795_812_560.0 + step) + b"\x10" + bytes([step])
    return _record(body + b"\x2a" + bytes([len(summary)]) + summary)


def diverged(run: Path) -> Path:
    """A loss that becomes NaN, in event files, JSON lines and a CSV whose names and tags tell who and where."""
    folder = run / f"tb-{USER}"
    folder.mkdir(parents=True)
    tags = (
        "train/loss",
        f"loss/{HOST}",
        f"{USER}/grad_norm",
        f"gpu/GPU-{UUID}/mem",
        f"loss_at_{IP}",
        f"loss s3://{BUCKET}/x",
    )
    events = [_record(b"\x09" + struct.pack("<d", 1_795_812_560.0) + b"\x1a\x0dbrain.Event:2")]
    for step in range(1, 40):
        number = float("nan") if step >= 30 else 3.0 - step / 20
        events += [_event(step, _value(tag, number)) for tag in tags]
    (folder / f"events.out.tfevents.1795812560.{HOST}.4242.0").write_bytes(b"".join(events))
    rows = [
        {"step": s, "loss": "NaN" if s >= 30 else 2.0, f"loss/{MATE}@{OTHER}": 1.0, "host": HOST, "user": USER}
        for s in range(1, 40)
    ]
    _lines(run / f"metrics_{OTHER}.jsonl", *(json.dumps(row) for row in rows))
    _lines(
        run / f"train_{HOST}.log",
        f"config: user={USER} master_addr={FQDN} token={TOKEN}",
        *(f"{_T}{s:02} [{HOST}] step {s} loss {'nan' if s >= 30 else 2.0}" for s in range(1, 40)),
    )
    return run


def checkpoints(run: Path) -> Path:
    """A checkpoint that is cut, in a folder with names, loaded in vain."""
    folder = run / f"ckpt-{USER}" / f"checkpoint-400-{OTHER}"
    folder.mkdir(parents=True)
    (folder / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + b"\0" * 5000)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    where = f"/home/{USER}/ckpt-{USER}/checkpoint-400-{OTHER}/pytorch_model.bin"
    _lines(
        run / PROJECT / "train.log",
        f"{_T}10 resuming from {where}, mirror https://{MATE}:{PASSWORD}@{FQDN}/x",
        *_trace(
            0,
            f"RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory: {where}",
            (f"/home/{USER}/{PROJECT}/train.py", 40, "load", f'torch.load("{where}")'),
        ),
    )
    return run


def records(run: Path) -> Path:
    """Configurations, listings and accounting of a run, each as its program writes it."""
    _lines(
        run / "config.json",
        json.dumps(
            {
                "_name_or_path": REPO,
                "model_type": "llama",
                "hidden_size": 4096,
                "architectures": ["LlamaForCausalLM"],
                "torch_dtype": "bfloat16",
                "transformers_version": "4.44.0",
            }
        ),
    )
    _lines(
        run / "adapter_config.json",
        json.dumps(
            {
                "base_model_name_or_path": f"/home/{USER}/models/{PROJECT}",
                "peft_type": "LORA",
                "r": 8,
                "lora_alpha": 16,
                "target_modules": ["q"],
            }
        ),
    )
    _lines(
        run / "accelerate.yaml",
        "compute_environment: LOCAL_MACHINE",
        "distributed_type: MULTI_GPU",
        f"main_process_ip: {IP}",
        "main_process_port: 29500",
        "num_machines: 2",
        "num_processes: 16",
        f"deepspeed_hostfile: /home/{MATE}/hostfile",
    )
    _lines(
        run / "trainer_state.json",
        json.dumps(
            {
                "best_model_checkpoint": f"/scratch/{USER}/out/checkpoint-10",
                "global_step": 10,
                "max_steps": 20,
                "epoch": 1.0,
                "log_history": [{"loss": 2.0, "step": 10, "epoch": 1}],
                "trial_name": None,
            }
        ),
    )
    _lines(
        run / "hparams.yaml",
        f"data_dir: gs://{BUCKET}/data",
        f"author: {MATE}",
        f"notify: {MAIL}",
        f"ckpt: s3://{BUCKET}/ckpt",
        f"teacher: {REPO}",
        f"tracker: https://wandb.ai/{ENTITY}/{PROJECT}/runs/{RUN}",
        f"hosts: [{HOST}, {OTHER}]",
        f"slack: https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D/{TOKEN}",
        f"command: python train.py --password {PASSWORD} --user {USER}",
        f"email_to: [{MAIL}]",
    )
    _lines(
        run / "settings.toml",
        "[db]",
        f'dsn = "postgres://{MATE}:{PASSWORD}@{FQDN}/runs"',
        "[s3]",
        f'access_key_id = "{KEY}"',
        f'bucket = "{BUCKET}"',
        f'signed = "https://{BUCKET}.s3.amazonaws.com/x?X-Amz-Signature={SIGNATURE}"',
    )
    _lines(
        run / "ds_config.json",
        json.dumps(
            {
                "train_batch_size": 8,
                "zero_optimization": {
                    "stage": 3,
                    "offload_optimizer": {"device": "nvme", "nvme_path": f"/local/{USER}/nvme"},
                },
                "wandb": {"enabled": True, "team": ENTITY, "group": GROUP, "project": PROJECT},
            }
        ),
    )
    _lines(run / "nvidia-smi.txt", f"GPU 0: NVIDIA H100 (UUID: GPU-{UUID})", "Serial Number : 1654922006789")
    _lines(
        run / "collect_env.txt",
        "PyTorch version: 2.4.0",
        f"Python platform: Linux-5.15-{HOST}-x86_64",
        "Nvidia driver version: 550.1",
        f"Hostname: {HOST}",
    )
    _lines(run / "pip.txt", f"internal-lib @ git+https://{MATE}:{PASSWORD}@github.com/{REPO}.git@abc", "torch==2.4.0")
    _lines(
        run / "pod.yaml",
        "apiVersion: v1",
        "kind: Pod",
        "metadata:",
        f"  name: {POD}",
        f"  namespace: {SPACE}",
        "spec:",
        f"  nodeName: {NODE}",
        "  serviceAccountName: " + USER,
        "status:",
        "  phase: Failed",
        "  containerStatuses:",
        "  - lastState: {terminated: {exitCode: 137, reason: OOMKilled}}",
        f"  hostIP: {IP}",
    )
    _lines(
        run / "describe.txt",
        f"Name:         {POD}",
        f"Namespace:    {SPACE}",
        f"Node:         {NODE}/{IP}",
        f"Labels:       owner={USER}",
        "State:          Terminated",
        "  Reason:       OOMKilled",
        "  Exit Code:    137",
    )
    _lines(
        run / "job.json",
        json.dumps(
            {
                "user": USER,
                "submit_host": LOGIN,
                "node": HOST,
                "nodes": f"{HOST},{OTHER}",
                "account": GROUP,
                "token": TOKEN,
                "job_name": PROJECT,
                "mail_user": MAIL,
            }
        ),
    )
    _lines(
        run / "sacct.csv",
        "JobID|JobName|User|Account|NodeList|State|ExitCode",
        f"42|{PROJECT}|{USER}|{GROUP}|{OTHER}|OUT_OF_MEMORY|0:125",
    )
    _lines(
        run / "squeue.txt",
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        f"                42       gpu {PROJECT} {USER}  R 1:00 1 {OTHER}",
    )
    _lines(
        run / f"{USER}-notes.log",
        f"Host {HOST} is up",
        f"rank 3 on {OTHER}: CUDA error: an illegal memory access was encountered",
        f"terminate called on {HOST}",
    )
    data = (
        b"2026-11-27T20:49:10 step 3 loss 2\n" + f"[{HOST}] CUDA error: out of memory at /home/{USER}/x.py\n".encode()
    )
    with tarfile.open(run / f"logs_{OTHER}.tar.gz", "w:gz") as t:
        i = tarfile.TarInfo(f"{USER}/{HOST}/rank0.log")
        i.size = len(data)
        t.addfile(i, io.BytesIO(data))
    return run


def _introduced(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """The run with a log in which it says who it is: names that stand bare elsewhere are given away by that."""

    def made(run: Path) -> Path:
        make(run)
        _lines(
            run / "console.log",
            f"{USER}@{LOGIN}:~$ sbatch --account={GROUP} -w {HOST},{OTHER} run.sh",
            f"{HOST}:4242:4300 [0] NCCL INFO Bootstrap : Using eth0:{IP}<0>",
            f"{OTHER}:4242:4300 [0] NCCL INFO Bootstrap : Using eth0:{IP}<0>",
            f"wandb: Currently logged in as: {MATE} ({ENTITY}). Use `wandb login --relogin` to force relogin",
            f"wandb: View run at https://wandb.ai/{ENTITY}/{PROJECT}/runs/{RUN}",
        )
        return run

    return made


RUNS: dict[str, Callable[[Path], Path]] = {
    f.__name__: _introduced(f) for f in (exception, hang, killed, cluster, diverged, checkpoints)
}
RUNS["records"] = records


def sources(folder: Path) -> Path:
    """Training code with names in it, and with something for its checks to find."""
    home = folder / USER / PROJECT
    _lines(
        home / f"train_{USER}.py",
        f'"""By {MAIL}, runs on {FQDN}."""',
        "import torch.distributed as dist",
        "from torch.utils.data import DataLoader",
        "from torch.utils.data.distributed import DistributedSampler",
        "",
        "",
        f"def main(rank, dataset, token='{TOKEN}', where='s3://{BUCKET}/x'):",
        "    sampler = DistributedSampler(dataset, shuffle=True)",
        f"    loader = DataLoader(dataset, sampler=sampler, shuffle=True)  # {USER}@{HOST}:/home/{USER}",
        "    for epoch in range(10):",
        "        for batch in loader:",
        "            if rank == 0:",
        f"                dist.barrier()  # see git@github.com:{REPO}.git, password={PASSWORD}",
    )
    return folder
