"""Small training runs that fail on a real GPU, each in its own way: `python faults.py NAME` (see make.sh)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 512
WIDTH = 128
RAS_PORT = 28028  # NCCL's default (NCCL_RAS_ADDR)


class Model(nn.Module):
    """A transformer block or two over token ids: enough to fail in the ways that large ones do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.embed(tokens)
        attended, _ = self.attend(hidden, hidden, hidden, need_weights=True)
        return self.head(self.norm(hidden + attended))


def batch(step: int, size: int = 8, length: int = 64) -> Tensor:
    generator = torch.Generator().manual_seed(step)
    start = torch.randint(0, VOCABULARY, (size, 1), generator=generator)
    return ((start + torch.arange(length)) % VOCABULARY).cuda()


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def report(step: int, loss: float, **more: float) -> None:
    extra = "".join(f" {name}={value:g}" for name, value in more.items())
    print(f"step {step} loss={loss:.4f}{extra}", flush=True)


def train(
    steps: int,
    tokens: Callable[[int], Tensor] = batch,
    before: Callable[[int], None] | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    torch.manual_seed(0)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        if before is not None:
            before(step)
        with torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of(model, tokens(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report(step, loss.item())


def cuda_oom() -> None:
    """One sample is far longer than the rest: its attention matrix does not fit."""
    train(30, tokens=lambda step: batch(step, length=131072 if step == 12 else 64))


def fill(leave: int) -> subprocess.Popen[str]:
    """Another process that takes the GPU's memory, all but `leave` bytes of it."""
    child = subprocess.Popen([sys.executable, __file__, "_ballast", str(leave)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def ballast(leave: int) -> None:
    held = []
    torch.zeros(1, device="cuda")
    for size in (1 << 30, 64 << 20, 2 << 20):
        while torch.cuda.mem_get_info()[0] - leave > size:
            try:
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            except torch.OutOfMemoryError:
                break
    print("full", flush=True)
    time.sleep(40)


def beside_full_gpu(work: Callable[[], object], leave: int) -> None:
    """The memory is gone before cuBLAS or cuDNN makes its first handle."""
    torch.zeros(1 << 20, device="cuda").add_(1)
    torch.cuda.synchronize()
    child = fill(leave)
    try:
        print("step 1: first forward pass", flush=True)
        work()
        torch.cuda.synchronize()
    finally:
        child.kill()


def cublas_full() -> None:
    x = torch.ones(256, 256, device="cuda")
    beside_full_gpu(lambda: x @ x, 1 << 20)


def cudnn_full() -> None:
    convolution = nn.Conv2d(8, 64, 3, padding=1).cuda()
    x = torch.ones(4, 8, 64, 64, device="cuda")
    beside_full_gpu(lambda: convolution(x), 4 << 20)


def device_assert() -> None:
    """A token id that the embedding has no row for, in step 9."""

    def tokens(step: int) -> Tensor:
        made = batch(step)
        if step == 9:
            made[3, 5] = VOCABULARY + 17
        return made

    train(20, tokens=tokens)


KERNELS = r"""
extern "C" __global__ void stray(float* x) { x[(1ll << 34) + threadIdx.x] = 1.0f; }
extern "C" __global__ void crooked(char* x) { *(int4*)(x + 4) = make_int4(1, 2, 3, 4); }
extern "C" __global__ void trapped(float* x) { if (x[0] == 0.0f) __trap(); }
"""


def custom_kernel(name: str) -> Callable[[], None]:
    def run() -> None:
        import cupy

        kernel = cupy.RawKernel(KERNELS, name)
        x = torch.zeros(1024, device="cuda")

        def before(step: int) -> None:
            if step == 7:
                kernel((1,), (32,), (cupy.asarray(x),))

        train(20, before=before)

    return run


def flash_fp32() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    train(3)
    q = torch.ones(2, 4, 64, 32, device="cuda")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(q, q, q)


def no_gpu() -> None:
    train(3)


class OnGpu(torch.utils.data.Dataset[Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((4,), float(index)).cuda()


def fork_cuda() -> None:
    train(3)
    for _ in torch.utils.data.DataLoader(OnGpu(), batch_size=4, num_workers=2):
        pass


def bf16_healthy() -> None:
    train(60, dtype=torch.bfloat16)
    print("training finished", flush=True)


def scaler_collapse() -> None:
    """fp16: 1e-8 is zero in half precision, so the entropy term of step 25 on has a gradient of 0 * inf."""
    torch.manual_seed(0)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(1, 71):
        with torch.autocast("cuda", dtype=torch.float16):
            tokens = batch(step)
            loss = loss_of(model, tokens)
            if step >= 25:
                chances = (200 * model(tokens)).softmax(-1).half()
                loss = loss + 1e-3 * (chances + 1e-8).log().clamp(min=-20).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        report(step, loss.item(), grad_norm=norm.item(), loss_scale=scaler.get_scale())


def hf_bf16_healthy() -> None:
    hf_trainer(2e-4)


def hf_trainer(rate: float, **options: object) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    rows = [{"input_ids": row.cpu(), "labels": row.cpu()} for row in batch(1, size=256, length=32)]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=64, n_layer=2, n_head=2))
    settings = {"bf16": True, "max_steps": 60, "logging_steps": 5, "report_to": "none", "save_strategy": "no"} | options
    arguments = TrainingArguments("out", learning_rate=rate, per_device_train_batch_size=8, **settings)
    Trainer(model=model, args=arguments, train_dataset=rows).train()


def hf_fp16_diverges() -> None:
    """fp16 and a learning rate a thousand times too high."""
    hf_trainer(3.0, bf16=False, fp16=True, lr_scheduler_type="constant", max_grad_norm=0.0, logging_steps=2)


def join(seconds: float = 60) -> int:
    local = int(os.environ["LOCAL_RANK"])
    device = 0 if os.environ.get("SHARE_ONE_GPU") else local
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=timedelta(seconds=seconds), device_id=torch.device("cuda", device))
    return dist.get_rank()


def ddp() -> None:
    join()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Model().cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, 21):
        loss = loss_of(model, batch(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        report(step, mean.item())
    dist.barrier()
    dist.destroy_process_group()
    print("training finished", flush=True)


def stall(cycles: float) -> None:
    """Occupy the GPU's current stream: what is enqueued after this does not start until it ends."""
    torch.cuda._sleep(int(cycles))


def many_collectives() -> None:
    size = dist.get_world_size()
    pair = dist.new_group([0], group_desc="tensor_parallel")
    x = torch.ones(64, 32, device="cuda")
    for _ in range(3):
        dist.all_reduce(x)
        dist.all_gather_into_tensor(torch.empty(64 * size, 32, device="cuda"), x)
        dist.reduce_scatter_tensor(torch.empty(64 // size, 32, device="cuda"), x)
        dist.broadcast(x, 0)
        dist.all_to_all_single(torch.empty_like(x), x)
        dist.all_reduce(x.bfloat16(), group=pair)
        with dist._coalescing_manager(device=x.device):
            dist.all_reduce(x)
            dist.all_reduce(torch.ones(8, device="cuda"))
    dist.barrier()
    torch.cuda.synchronize()


def ask_ras(folder: Path) -> None:
    """NCCL's own status service, as text and as JSON (NCCL 2.24+, JSON from 2.28)."""
    for name, wish in (("ras.txt", "text"), ("ras.json", "json")):
        try:
            with socket.create_connection(("localhost", RAS_PORT), timeout=5) as line:
                line.sendall(b"CLIENT PROTOCOL 2\n")
                greeting = line.recv(200)
                if wish == "json":
                    line.sendall(b"SET FORMAT json\n")
                    line.recv(200)
                line.sendall(b"VERBOSE STATUS\n")
                answer = b""
                while block := line.recv(65536):
                    answer += block
            (folder / name).write_bytes(answer)
            print(f"RAS answered {greeting!r}, {len(answer)} bytes", flush=True)
        except OSError as error:
            print(f"RAS did not answer: {error}", flush=True)


def fr_on_request() -> None:
    """Dumps taken while a collective waits behind a kernel that does not end soon."""
    rank = join()
    folder = Path(os.environ["CAPTURE"])
    many_collectives()
    stall(2e10)
    hanging = torch.ones(1024, device="cuda")
    dist.all_reduce(hanging, async_op=True)
    time.sleep(1)
    c10d = torch._C._distributed_c10d
    (folder / "pickle").mkdir()
    (folder / "json").mkdir()
    (folder / "active").mkdir()
    (folder / "pickle" / f"nccl_trace_rank_{rank}").write_bytes(c10d._dump_nccl_trace(True, True, False))
    (folder / "json" / f"rank_{rank}.json").write_bytes(c10d._dump_nccl_trace_json(True, False))
    (folder / "active" / f"comm_lib_trace_rank_{rank}").write_bytes(c10d._dump_nccl_trace(True, True, True))
    (folder / "ras").mkdir()
    ask_ras(folder / "ras")
    torch.cuda.synchronize()
    dist.destroy_process_group()
    print(json.dumps({"nccl": torch.cuda.nccl.version(), "torch": torch.__version__}), flush=True)


def watchdog_timeout() -> None:
    join(10)
    many_collectives()
    x = torch.ones(4096, device="cuda")
    for step in range(1, 30):
        if step == 6:
            stall(1.2e11)
        dist.all_reduce(x)
        if step < 6:
            report(step, x.mean().item())
    torch.cuda.synchronize()


RUNS: dict[str, Callable[[], None]] = {
    "cuda-oom": cuda_oom,
    "cublas-full": cublas_full,
    "cudnn-full": cudnn_full,
    "device-assert": device_assert,
    "illegal-access": custom_kernel("stray"),
    "misaligned": custom_kernel("crooked"),
    "launch-failure": custom_kernel("trapped"),
    "flash-fp32": flash_fp32,
    "no-gpu": no_gpu,
    "fork-cuda": fork_cuda,
    "bf16-healthy": bf16_healthy,
    "scaler-collapse": scaler_collapse,
    "hf-bf16-healthy": hf_bf16_healthy,
    "hf-fp16-diverges": hf_fp16_diverges,
    "ddp": ddp,
    "fr-on-request": fr_on_request,
    "watchdog-timeout": watchdog_timeout,
}


if __name__ == "__main__":
    if sys.argv[1] == "_ballast":
        ballast(int(sys.argv[2]))
    else:
        RUNS[sys.argv[1]]()
