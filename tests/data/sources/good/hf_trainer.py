from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("model")


def group(rows):
    block = tokenizer(rows["text"])["input_ids"]
    out = {"input_ids": block}
    out["labels"] = out["input_ids"].copy()
    return out


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("model"),
    args=TrainingArguments("out", eval_strategy="steps", save_strategy="steps", load_best_model_at_end=True),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train(resume_from_checkpoint=True)
