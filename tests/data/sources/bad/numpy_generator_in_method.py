import numpy as np
from numpy.random import RandomState
import torch.utils.data as data


class D(data.Dataset):
    def __init__(self, seed=1):
        super().__init__()
        self.state = RandomState(seed)  # HIT numpy_generator_in_dataset

    def __getitem__(self, i):
        return self._augment(i)

    def _augment(self, i):
        return self.state.rand(3)


def make():
    return data.DataLoader(D(), batch_size=2, num_workers=8)
