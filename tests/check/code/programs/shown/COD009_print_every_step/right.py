"""Fine-tunes a sentiment classifier with DDP and prints its progress."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def sentences(samples=400):
    generator = torch.Generator().manual_seed(8)
    tokens = torch.randint(0, 100, (samples, 12), generator=generator)
    return TensorDataset(tokens, (tokens[:, 0] > 50).long())


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.EmbeddingBag(100, 24)
        self.out = torch.nn.Linear(24, 2)

    def forward(self, tokens):
        return self.out(self.words(tokens))


def train(model, loader, sampler, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for step, (tokens, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens), labels)
            loss.backward()
            optimizer.step()
            if step % 10 == 0 and dist.get_rank() == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)


def main():
    dist.init_process_group("gloo")
    data = sentences()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=5, sampler=sampler)
    train(DDP(Classifier()), loader, sampler, epochs=5)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
