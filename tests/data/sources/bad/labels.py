from transformers import AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("model")


def tokenize(row):
    out = tokenizer(row["text"], padding="max_length", truncation=True, max_length=512)
    out["labels"] = out["input_ids"].copy()  # HIT labels_not_masked
    return out
