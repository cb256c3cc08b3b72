from torchvision import transforms

tf = {
    "train": transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])]),
    "val": transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.1], [0.3])]),  # HIT normalisation_differs
}
