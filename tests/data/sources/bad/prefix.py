import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def run(model, path, rank):
    model.load_state_dict(torch.load(path, map_location="cpu"))
    model = DDP(model)
    if rank == 0:
        torch.save(model.state_dict(), path)  # HIT wrapped_state_saved
