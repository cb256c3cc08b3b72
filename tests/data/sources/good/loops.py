import torch
from torch.nn.utils import clip_grad_norm_


def rotated(model, loader, criterion, optimizer):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def cleared_last(model, loader, criterion, optimizer):
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total


def accumulated(model, loader, criterion, optimizer, accum_steps):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / accum_steps
        loss.backward()
        if (i + 1) % accum_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def many_losses(model, batches, optimizer, criterion):
    for batch in batches:
        optimizer.zero_grad()
        total = 0
        for x, y in batch:
            loss = criterion(model(x), y)
            total += loss
        total.backward()
        optimizer.step()


def gan(generator, critic, optimizer_g, optimizer_d, loader, criterion):
    for real in loader:
        optimizer_d.zero_grad()
        fake = generator(real)
        loss_d = criterion(critic(real), torch.ones(1)) + criterion(critic(fake.detach()), torch.zeros(1))
        loss_d.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        loss_g = criterion(critic(fake), torch.ones(1))
        loss_g.backward()
        optimizer_g.step()


def scheduled(model, loader, criterion, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=len(loader) * epochs)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            scheduler.step()
        if torch.rand(1).item() > 0.5:
            print(epoch)


def precision(model, loader, criterion, optimizer, use_amp, grad_clip):
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        if use_amp:
            scaler.scale(loss).backward()
            if grad_clip:
                scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), grad_clip)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            if grad_clip:
                clip_grad_norm_(model.parameters(), grad_clip)
            optimizer.step()
