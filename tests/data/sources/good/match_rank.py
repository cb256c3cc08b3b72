import torch
from torch.distributed import barrier, broadcast, get_rank, get_world_size


def download(x):
    match get_rank():
        case 0:
            torch.hub.download_url_to_file("https://example.com/x", "x")
            barrier()
        case _:
            barrier()


def rank_zero_first(x, rank):
    match rank:
        case 0:
            torch.save(x, "x.pt")
            barrier()
    if rank != 0:
        barrier()


def three_parts(x, rank):
    match rank:
        case 0:
            broadcast(x, src=0)
        case 1:
            broadcast(x, src=0)
            print(x)
        case _:
            broadcast(x, src=0)


def by_mode(x, mode):
    match mode:
        case "sync":
            barrier()
        case _:
            pass


def by_world(x):
    match get_world_size():
        case 1:
            pass
        case _:
            barrier()
