import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __getitem__(self, i):
        return torch.load(f"{i}.pt").cuda()  # HIT cuda_in_worker


loader = DataLoader(Images(), batch_size=4, num_workers=2)
