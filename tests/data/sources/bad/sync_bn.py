import torch
from torch.nn.parallel import DistributedDataParallel


def wrap(model, device):
    model = DistributedDataParallel(model.to(device))
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)  # HIT sync_batchnorm_after_ddp
    return model
