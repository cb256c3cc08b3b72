import torch


def build(model, device):
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    model.to(device)  # HIT optimizer_before_move
    return model, optimizer
