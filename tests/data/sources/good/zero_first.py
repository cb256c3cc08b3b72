from contextlib import contextmanager

import torch
import torch.distributed as dist


@contextmanager
def zero_first(local_rank):
    """Rank 0 of each host goes first; the others wait for it."""
    if local_rank not in [-1, 0]:
        dist.barrier()
    yield
    if local_rank == 0:
        dist.barrier()


def load(args):
    if args.rank != 0:
        torch.distributed.barrier()
    dataset = [1, 2, 3]
    if args.rank == 0:
        torch.distributed.barrier()
    return dataset


def share(value, rank):
    if rank == 0:
        value = [value]
        dist.broadcast_object_list(value, src=0)
    else:
        value = [None]
        dist.broadcast_object_list(value, src=0)
    return value[0]


def setup(rank, world, distributed):
    if rank > -1:
        dist.barrier()
    if distributed and world > 1:
        dist.barrier()
    if rank is None:
        return
    leaders = dist.new_group([0, 4])
    if rank % 4 == 0:
        dist.all_reduce(torch.ones(1), group=leaders)
    if rank == 0:
        dist.send(torch.ones(1), 1)
    elif rank == 1:
        dist.recv(torch.ones(1), 0)


def check(rank, value):
    if rank == 0 and value is None:
        raise ValueError("no value")
    dist.all_reduce(value)


def low_rank(matrix, rank):
    # the rank of a matrix
    if rank == 0:
        return matrix
    return matrix[:, :rank]
