from transformers import Trainer, TrainingArguments

arguments = TrainingArguments(  # HIT best_model_settings
    output_dir="out",
    eval_strategy="epoch",
    save_strategy="steps",
    load_best_model_at_end=True,
)
