import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType


def build(model, device):
    model = FSDP(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return model, optimizer


def save(model, path):
    config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
        state = model.state_dict()
    if dist.get_rank() == 0:
        torch.save(state, path)
    dist.barrier()


def save_early(model, path, rank):
    if rank != 0:
        return
    torch.save(model, path)


def single_node(rank, world):
    torch.cuda.set_device(rank % torch.cuda.device_count())


def resume(model, path):
    missing, unexpected = model.load_state_dict(torch.load(path, map_location="cpu"), strict=False)
    assert not missing, unexpected
