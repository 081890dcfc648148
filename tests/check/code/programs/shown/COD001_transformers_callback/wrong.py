"""Trains a classifier with the Transformers Trainer and a callback that collects the errors of all ranks.

Shows: nothing here (needs transformers)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Flags(Dataset):
    def __init__(self, number=640):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(number, 12, generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"features": self.x[index], "labels": (self.x[index].sum() > 0).long()}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 2))
        self.hard = []

    def forward(self, features, labels):
        logits = self.layers(features)
        loss = nn.functional.cross_entropy(logits, labels)
        self.hard.append(int((logits.argmax(1) != labels).sum()))
        return {"loss": loss, "logits": logits}


class HardSamples(TrainerCallback):
    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        mine = sum(model.hard)
        model.hard.clear()
        if state.is_world_process_zero:
            parts = [None] * args.world_size
            dist.all_gather_object(parts, mine)  # BUG COD001
            print(f"epoch {state.epoch:.0f}: {sum(parts)} samples were hard")


def main():
    arguments = TrainingArguments(output_dir="flags", num_train_epochs=3, report_to=[], save_strategy="no")
    trainer = Trainer(model=Classifier(), args=arguments, train_dataset=Flags(), callbacks=[HardSamples()])
    trainer.train()


if __name__ == "__main__":
    main()
