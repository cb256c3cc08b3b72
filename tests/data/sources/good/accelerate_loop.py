import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader


def main(model, dataset, epochs):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(dataset, batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(epochs):
        model.train()
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.wait_for_everyone()
        accelerator.save_state("out")
        if accelerator.is_main_process:
            torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")


@torch.no_grad()
def evaluate(model, loader, index):
    acc = Accelerator()
    found = []
    model.eval()
    for batch in loader:
        found.append(acc.gather_for_metrics(model(**batch).logits))
        if acc.is_main_process:
            rows = index.gather(batch["ids"])
            print(rows, torch.gather(found[-1], 1, batch["ids"]))
    return found
