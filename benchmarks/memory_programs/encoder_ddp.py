"""An encoder of torch's own layers under DistributedDataParallel."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()


class Sentences(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return torch.randint(0, 30_000, (args.length,)), index % 2


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30_000, args.width)
        layer = nn.TransformerEncoderLayer(args.width, 16, 4 * args.width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, args.layers)
        self.head = nn.Linear(args.width, 2)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(dim=1))


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(Classifier().to(local_rank), device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = Sentences()
loader = DataLoader(data, args.batch_size, sampler=DistributedSampler(data), num_workers=2, pin_memory=True)
for step, (x, y) in enumerate(loader):
    if step == 3:
        break
    x, y = x.to(local_rank), y.to(local_rank)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}")
dist.destroy_process_group()
