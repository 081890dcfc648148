"""Trains a matcher; another module builds its loader, with weights for rare scenes.

From: https://github.com/Parskatt/RoMa/issues/32
Shows: differs 2 ranks torch (samples)
"""

import torch
import torch.distributed as dist
from loaders import build_loader
from torch.nn.parallel import DistributedDataParallel as DDP


def main(epochs=2):
    dist.init_process_group("gloo")
    torch.manual_seed(21)
    model = DDP(torch.nn.Linear(7, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = build_loader(batch_size=10)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {len(loader)} batches")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
