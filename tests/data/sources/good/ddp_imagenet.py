import argparse
import os

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms

normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
train_transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor(), normalize])
val_transform = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), normalize])


def seed_worker(worker_id):
    np.random.seed(torch.initial_seed() % 2**32)


def reduce_mean(value):
    value = value.clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()


@torch.no_grad()
def validate(model, loader, criterion):
    model.eval()
    total = torch.zeros(2, device="cuda")
    for x, y in loader:
        out = model(x.cuda())
        total[0] += criterion(out, y.cuda()) * len(y)
        total[1] += len(y)
    total = reduce_mean(total)
    return (total[0] / total[1]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    if rank == 0:
        datasets.FakeData()
    dist.barrier()
    train_set = datasets.ImageFolder("train", train_transform)
    val_set = datasets.ImageFolder("val", val_transform)
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, sampler=sampler, shuffle=(sampler is None), num_workers=4, worker_init_fn=seed_worker, pin_memory=True)
    val_loader = DataLoader(val_set, sampler=DistributedSampler(val_set, shuffle=False), num_workers=4)
    model = models.resnet50().cuda(local_rank)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = DDP(model, device_ids=[local_rank])
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=90)
    scaler = torch.amp.GradScaler("cuda")
    start = 0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location=f"cuda:{local_rank}")
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        scaler.load_state_dict(checkpoint["scaler"])
        start = checkpoint["epoch"] + 1
    for epoch in range(start, 90):
        sampler.set_epoch(epoch)
        model.train()
        running = 0.0
        for step, (x, y) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion(model(x.cuda()), y.cuda())
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            running += loss.item()
            if step % 100 == 0:
                mean = reduce_mean(loss.detach())
                if rank == 0:
                    print(f"step {step} loss {mean.item():.4f}")
        scheduler.step()
        accuracy = validate(model, val_loader, criterion)
        if rank == 0:
            state = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "scaler": scaler.state_dict(),
                "epoch": epoch,
            }
            torch.save(state, "last.pt")
            print(accuracy)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
