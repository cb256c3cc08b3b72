import torch


def evaluate(model, val_loader):
    model.eval()  # HIT eval_without_train
    right = 0
    with torch.no_grad():
        for x, y in val_loader:
            right += (model(x).argmax(1) == y).sum().item()
    return right


def main(model, loader, val_loader, criterion, optimizer):
    model.train()
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        print(evaluate(model, val_loader))
