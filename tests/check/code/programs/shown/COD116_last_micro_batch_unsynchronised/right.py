"""A speech trainer that accumulates gradients over a fixed number of batches."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Recogniser(nn.Module):
    def __init__(self, features=20, letters=12):
        super().__init__()
        self.frames = nn.Conv1d(features, 16, 3, padding=1)
        self.letters = nn.Linear(16, letters)

    def forward(self, speech):
        return self.letters(self.frames(speech).relu().mean(2))


class Trainer:
    def __init__(self, accum_grad=4):
        self.accum_grad = accum_grad
        self.model = DistributedDataParallel(Recogniser())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def utterances(self, number):
        generator = torch.Generator().manual_seed(dist.get_rank())
        for _ in range(number):
            speech = torch.randn(6, 20, 15, generator=generator)
            yield speech, torch.randint(0, 12, (6,), generator=generator)

    def train_epoch(self, number=16):
        for batch_idx, (speech, text) in enumerate(self.utterances(number)):
            my_context = nullcontext
            if (batch_idx + 1) % self.accum_grad != 0:
                my_context = self.model.no_sync
            with my_context():
                loss = nn.functional.cross_entropy(self.model(speech), text)
                (loss / self.accum_grad).backward()
            if (batch_idx + 1) % self.accum_grad == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    trainer = Trainer()
    trainer.train_epoch()
    if dist.get_rank() == 0:
        print("1 epoch")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
