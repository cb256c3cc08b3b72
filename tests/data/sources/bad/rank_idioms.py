import os

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import gather_object

accelerator = Accelerator()


class Trainer:
    def __init__(self, args):
        self.rank = dist.get_rank()
        self.is_master = self.rank == 0
        self.args = args

    def a(self, x):
        if self.is_master:
            dist.all_reduce(x)  # HIT rank_conditional_collective

    def b(self, x):
        if torch.distributed.get_rank() == 0 and self.args.verbose:
            torch.distributed.broadcast(x, src=0)  # HIT rank_conditional_collective

    def c(self, steps, x):
        for step in range(steps):
            if self.rank != 0:
                continue
            dist.all_gather([x], x)  # HIT rank_conditional_collective


def d():
    if int(os.environ.get("RANK", 0)) == 0:
        dist.barrier()  # HIT rank_conditional_collective


def e():
    if not accelerator.is_main_process:
        return
    accelerator.wait_for_everyone()  # HIT rank_conditional_collective


def f(args, x):
    if dist.is_initialized() and args.rank in (0,):
        values = [x] if args.quiet else dist.all_gather_object([None], x)  # HIT rank_conditional_collective
        return values
    return None


def g(x, gpu, world):
    if gpu == 0 or world == 1:
        dist.reduce(x, 0)  # HIT rank_conditional_collective


def l(loss):
    acc = Accelerator()
    if acc.is_main_process:
        print(acc.gather(loss).mean())  # HIT rank_conditional_collective
    if acc.is_local_main_process:
        print(gather_object([loss]))  # HIT rank_conditional_collective
