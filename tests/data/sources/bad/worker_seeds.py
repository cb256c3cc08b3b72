import numpy as np
from torch.utils.data import DataLoader


def seed_worker(worker_id):
    np.random.seed(1234)  # HIT worker_seed_constant


def loader(dataset):
    return DataLoader(dataset, num_workers=8, worker_init_fn=seed_worker)
