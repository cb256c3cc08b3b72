from accelerate import Accelerator, DistributedDataParallelKwargs
import torchvision


def main():
    kwargs = DistributedDataParallelKwargs(broadcast_buffers=False)  # HIT batchnorm_not_synchronised
    accelerator = Accelerator(kwargs_handlers=[kwargs])
    model = torchvision.models.resnet18()
    model = accelerator.prepare(model)
