"""A classifier in a plain loop."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--batch-size", type=int, default=1024)
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(1024, args.width),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(args.width, args.width),
    nn.ReLU(),
    nn.Linear(args.width, args.width),
    nn.ReLU(),
    nn.Linear(args.width, 10),
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(4 * args.batch_size, 1024), torch.randint(0, 10, (4 * args.batch_size,)))
loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=2, pin_memory=True)
for step, (x, y) in enumerate(loader):
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")
