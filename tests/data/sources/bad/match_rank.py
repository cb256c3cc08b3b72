import os

import torch
from torch.distributed import all_gather_object, barrier, get_rank

match get_rank():
    case 0:
        out = [None] * 4
        all_gather_object(out, {"a": 1})  # HIT rank_conditional_collective
    case _:
        pass


def only_others(x):
    match int(os.environ["RANK"]):
        case 0:
            print(x)
        case _:
            torch.distributed.all_reduce(x)  # HIT rank_conditional_collective


def share(x):
    barrier()
    return x


def without_a_rest(x, rank):
    match rank:
        case 0:
            share(x)  # HIT rank_conditional_collective
