import torch
from peft import LoraConfig, get_peft_model
from torch import nn


def finetune(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.fc = nn.Linear(512, 10)  # HIT optimizer_before_model
    return model, optimizer


def adapt(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model = get_peft_model(model, LoraConfig())  # HIT optimizer_before_model
    return model, optimizer
