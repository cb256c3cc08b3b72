import torch
import torch.distributed as dist


def gather_metrics(local):
    out = [None] * dist.get_world_size()
    dist.all_gather_object(out, local)
    return out


def summarize(model, loader):
    with torch.no_grad():
        local = {"loss": sum(float(model(x)) for x in loader)}
    return gather_metrics(local)


def evaluate(model, loader):
    model.eval()
    found = summarize(model, loader)
    model.train()
    return found


def main(model, loader, held_out):
    for step, x in enumerate(loader):
        loss = model(x).mean()
        loss.backward()
        if step % 1000 == 0 and dist.get_rank() == 0:
            evaluate(model, held_out)  # HIT rank_conditional_collective
