import torch.distributed as dist


def exchange(x, rank):
    if rank == 0:
        dist.broadcast(x, 0)  # HIT rank_conditional_collective
    else:
        dist.all_reduce(x)


def groups(rank):
    if rank < 4:
        group = dist.new_group([0, 1, 2, 3])  # HIT rank_conditional_collective
        return group
