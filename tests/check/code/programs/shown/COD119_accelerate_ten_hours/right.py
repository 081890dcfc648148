"""Tokenizes a corpus on the main process and fine-tunes a ranking model with Accelerate."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tokenize(part, parts):
    """Slow on the real corpus; here each line is a list of numbers."""
    lines = range(part, 900, parts)
    return torch.tensor([[(line * 7 + place) % 97 for place in range(14)] for line in lines])


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.EmbeddingBag(97, 20)
        self.score = nn.Linear(20, 1)

    def forward(self, tokens):
        return self.score(self.items(tokens)).squeeze(1)


def corpus(accelerator):
    mine = tokenize(accelerator.process_index, accelerator.num_processes)
    return accelerator.gather(mine.to(accelerator.device)).cpu()


def main():
    accelerator = Accelerator()
    tokens = corpus(accelerator)
    data = TensorDataset(tokens, (tokens.sum(1) % 5).float())
    model = Ranker()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(data, batch_size=30, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(2):
        for inputs, target in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.mse_loss(model(inputs), target))
            optimizer.step()
    accelerator.print("done")


if __name__ == "__main__":
    main()
