import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import StateDictType


def on_all_ranks(path):
    model = FSDP(nn.Linear(10, 2).cuda())
    state = model.state_dict()
    if dist.get_rank() == 0:
        torch.save(state, path)


def own_part(path):
    rank = dist.get_rank()
    model = FSDP(nn.Linear(10, 2).cuda())
    with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
        if rank == 0:
            torch.save(model.state_dict(), f"{path}.{rank}")


def either(path, use_fsdp):
    model = nn.Linear(10, 2).cuda()
    if use_fsdp:
        model = FSDP(model)
    if dist.get_rank() == 0 and not use_fsdp:
        torch.save(model.state_dict(), path)


def not_sharded(path):
    model = nn.parallel.DistributedDataParallel(nn.Linear(10, 2).cuda())
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), path)


def keep(network, path):
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path)


def sometimes_sharded(path, wrap):
    one = FSDP(nn.Linear(10, 2).cuda())
    keep(one, path)
    other = nn.Linear(10, 2).cuda()
    keep(other, path)


def keep_own(network, path):
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path)


def asks_first(path, use_fsdp):
    network = FSDP(nn.Linear(10, 2).cuda())
    if not use_fsdp:
        keep_own(network, path)


def keep_inner(network, path):
    network = network.module
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path)


def unwraps(path):
    network = FSDP(nn.Linear(10, 2).cuda())
    keep_inner(network, path)
