import torch
from torch import nn
from torch.nn import functional as F

classifier = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=-1))
logits_only = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
binary = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
bce = nn.BCEWithLogitsLoss()


def losses(x, y, raw):
    a = F.cross_entropy(classifier(x), y)  # HIT softmax_before_cross_entropy
    b = F.cross_entropy(raw.softmax(-1), y)  # HIT softmax_before_cross_entropy
    probabilities = torch.softmax(raw, dim=1)
    c = F.cross_entropy(probabilities, y)  # HIT softmax_before_cross_entropy
    d = bce(binary(x).squeeze(1), y)  # HIT sigmoid_before_bce_with_logits
    e = F.nll_loss(logits_only(x), y)  # HIT nll_without_log_softmax
    return a + b + c + d + e
