import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler


class Noisy(Dataset):
    def __init__(self, items):
        self.items = items
        self.rng = np.random.default_rng(0)  # HIT numpy_generator_in_dataset

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return torch.tensor(self.items[i] + self.rng.normal())


class Stream(IterableDataset):
    def __iter__(self):
        with open("lines.txt") as lines:
            yield from lines


class Batch:
    def __init__(self, items):
        self.x = torch.stack(items)


def gather(items):
    return Batch(items)


dataset = Noisy([1.0, 2.0])
sampler = RandomSampler(dataset)
loader = DataLoader(dataset, batch_size=2, shuffle=True, sampler=sampler, num_workers=4)  # HIT shuffle_with_sampler
stream = DataLoader(Stream(), batch_size=8, num_workers=4)  # HIT iterable_not_split
pinned = DataLoader(dataset, batch_size=8, collate_fn=gather, pin_memory=True)  # HIT pin_memory_custom_batch
