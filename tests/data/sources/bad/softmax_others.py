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
    f = F.cross_entropy(torch.softmax(raw, 1).view(-1, 3), y)  # HIT softmax_before_cross_entropy
    bounded = torch.softmax(raw, 1)
    bounded = bounded.clamp(1e-6, 1)
    g = F.cross_entropy(bounded, y)  # HIT softmax_before_cross_entropy
    h = bce(torch.sigmoid(raw).squeeze(-1), y)  # HIT sigmoid_before_bce_with_logits
    i = bce(torch.squeeze(torch.sigmoid(raw), -1), y)  # HIT sigmoid_before_bce_with_logits
    j = bce(torch.clamp(input=torch.sigmoid(raw), min=1e-6), y)  # HIT sigmoid_before_bce_with_logits
    return a + b + c + d + e + f + g + h + i + j
