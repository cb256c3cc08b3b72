import deepspeed
import torch.distributed as dist


def main(args, model, loader):
    engine, optimizer, _, scheduler = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    for step, batch in enumerate(loader):
        loss = engine(batch)
        engine.backward(loss)
        engine.step()
        if step % 100 == 0:
            engine.save_checkpoint("out", tag=str(step))
            if dist.get_rank() == 0:
                print(step, loss.item())
