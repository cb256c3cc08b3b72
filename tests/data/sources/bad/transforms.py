import cv2
import torch
from torchvision import datasets, models, transforms

train_tf = transforms.Compose([transforms.RandomCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
train_set = datasets.CIFAR10("data", train=True, transform=train_tf)
test_set = datasets.CIFAR10("data", train=False, transform=train_tf)  # HIT augmentation_at_evaluation
wrong = transforms.Compose(
    [
        transforms.Resize(32),
        transforms.Normalize([0.5], [0.5]),  # HIT normalize_before_tensor
        transforms.ToTensor(),
    ]
)
model = models.resnet18(weights="DEFAULT")


def read(path):
    image = cv2.imread(path)  # HIT images_in_bgr
    return torch.from_numpy(image).permute(2, 0, 1)
