import deepspeed


def train(args, model, loader):
    engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model)
    for batch in loader:
        loss = engine(batch)
        loss.backward()  # HIT engine_bypassed
        engine.step()
