import torch.distributed as dist


def gather_metrics(local, everywhere):
    if everywhere:
        out = [None] * dist.get_world_size()
        dist.all_gather_object(out, local)
        return out
    return [local]


def summarize(local):
    return gather_metrics(local, False)


def report(local):
    if dist.get_rank() == 0:
        show(local)


def show(local):
    print(local)


def again(n):
    return again(n - 1) if n else show(n)


def main(steps):
    for step in range(steps):
        if dist.get_rank() == 0:
            summarize({"step": step})
            report(step)
            again(3)
        found = summarize({"step": step})
    return found
