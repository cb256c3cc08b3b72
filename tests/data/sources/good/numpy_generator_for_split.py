import numpy as np
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, n):
        self.rng = np.random.default_rng(0)
        self.order = self.shuffled(n)

    def shuffled(self, n):
        return self.rng.permutation(n)

    def __getitem__(self, i):
        return self.read(self.order[i])

    def read(self, i):
        return i


loader = DataLoader(Rows(10), num_workers=4)
