import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType


def save(model, path):
    config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    if dist.get_rank() == 0:
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
            state = model.state_dict()  # HIT rank_conditional_collective
        torch.save(state, path)
