import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM


def after(name):
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(name), LoraConfig(r=8))
    return model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)


def of_a_part(model):
    optimizer = torch.optim.AdamW([p for p in model.backbone.parameters() if p.requires_grad], lr=2e-4)
    model.head = nn.Linear(10, 2)
    return model, optimizer


def of_another(teacher, name):
    model = AutoModelForCausalLM.from_pretrained(name)
    optimizer = torch.optim.AdamW(list(teacher.parameters()) + list(model.lm_head.parameters()))
    model = get_peft_model(model, LoraConfig(r=8))
    return model, optimizer
