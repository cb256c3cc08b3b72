import torchvision.models as models
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, rank):
        net = models.resnet50(weights=None).to(rank)
        self.model = DistributedDataParallel(net, broadcast_buffers=False)  # HIT batchnorm_not_synchronised
