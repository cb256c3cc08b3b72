import torch.nn as nn
import torch.nn.functional as F
from transformers import Trainer
from transformers.modeling_outputs import SequenceClassifierOutput


class Classifier(nn.Module):
    def __init__(self, encoder, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(768, classes), nn.Softmax(dim=-1))

    def forward(self, input_ids, attention_mask, labels=None):
        h = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state[:, 0]
        return {"logits": self.head(h)}


class WeightedTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = nn.CrossEntropyLoss()(outputs["logits"], labels)  # HIT softmax_before_cross_entropy
        return (loss, outputs) if return_outputs else loss


class GettingTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.get("labels")
        logits = model(**inputs).get("logits")
        return F.cross_entropy(logits.view(-1, 2), labels.view(-1))  # HIT softmax_before_cross_entropy


def build(encoder):
    net = Classifier(encoder, 2)
    return WeightedTrainer(model=net), GettingTrainer(net)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 4), nn.Softmax(dim=1)]
        self.act = nn.Softmax(dim=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, h):
        return self.act(self.fc(h)), h


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def forward(self, x, labels=None):
        probs, hidden = self.head(x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(probs, labels)  # HIT softmax_before_cross_entropy
        return SequenceClassifierOutput(loss=loss, logits=probs, hidden_states=hidden)


class TaggingTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(inputs["x"])
        logits = outputs.logits
        return F.cross_entropy(logits, inputs["y"])  # HIT softmax_before_cross_entropy


TaggingTrainer(model=Tagger()).train()
