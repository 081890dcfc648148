"""Fine-tunes with LoRA-like adapters under DDP and reports the loss now and then.

From: https://github.com/meta-pytorch/torchtune/pull/522
Shows: nothing here (needs GPU)
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LOG_EVERY = 50


class Adapter(torch.nn.Module):
    def __init__(self, width, low):
        super().__init__()
        self.base = torch.nn.Linear(width, width)
        self.base.requires_grad_(False)
        self.down = torch.nn.Linear(width, low, bias=False)
        self.up = torch.nn.Linear(low, width, bias=False)
        torch.nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    data = TensorDataset(torch.randn(4096, 256), torch.randn(4096, 256))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, pin_memory=True)
    model = DDP(Adapter(256, 8).to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-4)
    step = 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            loss_to_log = loss.item()  # BUG COD006
            if step % LOG_EVERY == 0 and dist.get_rank() == 0:
                print(f"step {step}: loss {loss_to_log:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
