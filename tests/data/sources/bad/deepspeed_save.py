import deepspeed


def train(args, model, loader):
    engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model)
    for step, batch in enumerate(loader):
        loss = engine(batch)
        engine.backward(loss)
        engine.step()
        if step % 100 == 0 and engine.global_rank == 0:
            engine.save_checkpoint("out")  # HIT rank_conditional_collective
