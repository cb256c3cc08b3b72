try:
    loss.backward()
except torch.cuda.OutOfMemoryError:
    print("CUDA out of memory, skipping batch")
raise RuntimeError("loss is nan")
