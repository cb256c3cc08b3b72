import cv2
import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torchvision import transforms


class Images(Dataset):
    def __init__(self, paths, seed):
        self.paths = paths
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.order = rng.permutation(len(paths))

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        image = cv2.cvtColor(cv2.imread(self.paths[i]), cv2.COLOR_BGR2RGB)
        return torch.from_numpy(image) + rng.normal()


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from range(0 if info is None else info.id, 100, 1 if info is None else info.num_workers)


class Batch:
    def __init__(self, items):
        self.x = torch.stack(items)

    def pin_memory(self):
        self.x = self.x.pin_memory()
        return self


def load(x, y):
    x_train, x_test, y_train, y_test = train_test_split(x, y)
    scaler = StandardScaler().fit(x_train)
    return scaler.transform(x_train), scaler.transform(x_test)


train_tf = transforms.Compose([transforms.RandomCrop(32), transforms.ToTensor(), transforms.Normalize([0.485], [0.2])])
test_tf = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.485], [0.2])])
loader = DataLoader(Images([], 0), num_workers=2, collate_fn=Batch, pin_memory=True)
stream = DataLoader(Stream(), num_workers=4)
