import torch


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


def evaluate(model, val_loader):
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader)
        for x, y in val_loader:
            model(x)
    model.train(was_training)
    return right


def main(model, teacher, loader, val_loader, criterion, optimizer):
    teacher.eval()
    for epoch in range(10):
        train_one_epoch(model, loader, criterion, optimizer)
        evaluate(model, val_loader)
