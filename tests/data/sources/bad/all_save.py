import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(model, loader):
    dist.init_process_group("nccl")
    model = DDP(model.cuda())
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    state = torch.load("start.pt")  # HIT load_without_map_location
    model.load_state_dict(state["model"], strict=False)  # HIT load_not_strict
    for epoch in range(3):
        for x in loader:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        scheduler.step()
        torch.save({"model": model.state_dict(), "epoch": epoch, "optimizer": optimizer.state_dict()}, "l.pt")  # HIT every_rank_saves, state_not_saved
