import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def listed(name):
    model = AutoModelForCausalLM.from_pretrained(name)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    model = get_peft_model(model, LoraConfig(r=8))  # HIT optimizer_before_model
    return model, optimizer


def filtered(name):
    model = AutoModelForCausalLM.from_pretrained(name)
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=2e-4)
    model = get_peft_model(model, LoraConfig(r=8))  # HIT optimizer_before_model
    return model, optimizer


def grouped(name):
    model = AutoModelForCausalLM.from_pretrained(name)
    groups = [
        {"params": [p for n, p in model.named_parameters() if "bias" not in n], "weight_decay": 0.1},
        {"params": [p for n, p in model.named_parameters() if "bias" in n], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=2e-4)
    model = get_peft_model(model, LoraConfig(r=8))  # HIT optimizer_before_model
    return model, optimizer
