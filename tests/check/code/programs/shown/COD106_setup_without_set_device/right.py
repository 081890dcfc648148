"""A GPT toy in the style of a tutorial series: a trainer class, torchrun and snapshots."""

import os

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def ddp_setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group(backend="nccl")


class CharModel(nn.Module):
    def __init__(self, letters=64, width=48):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, letters)

    def forward(self, x):
        hidden, _ = self.rnn(self.embed(x))
        return self.head(hidden)


class Trainer:
    def __init__(self, data):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=16, sampler=self.sampler, pin_memory=True)
        self.model = DDP(CharModel().to(self.local_rank), device_ids=[self.local_rank])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)

    def run_batch(self, text):
        text = text.to(self.local_rank)
        logits = self.model(text[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def train(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for (text,) in self.loader:
                self.run_batch(text)


def main():
    ddp_setup()
    text = torch.randint(0, 64, (512, 33), generator=torch.Generator().manual_seed(0))
    Trainer(TensorDataset(text)).train(epochs=4)
    destroy_process_group()


if __name__ == "__main__":
    main()
