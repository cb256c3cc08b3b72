import torch
import torch.distributed as dist


def reduce_mean(value):
    dist.all_reduce(value)
    return value / dist.get_world_size()


class Runner:
    def sync(self, value):
        dist.barrier()
        return value

    def log(self, args, loss):
        if args.local_rank in [-1, 0]:
            print(reduce_mean(loss))  # HIT rank_conditional_collective

    def finish(self, value):
        is_main = dist.get_rank() == 0
        if is_main:
            self.sync(value)  # HIT rank_conditional_collective
