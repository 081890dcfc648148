"""A residual network of images, with SGD; in half precision with a scaler on request."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        middle = outside // 4
        self.body = nn.Sequential(
            nn.Conv2d(inside, middle, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, 3, stride, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.short = nn.Identity()
        if inside != outside or stride != 1:
            self.short = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x), inplace=True)


def network():
    w = args.width
    layers = [nn.Conv2d(3, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inside = w
    for stage, depth in enumerate((3, 4, 6, 3)):
        outside = w * 4 * 2**stage
        for block in range(depth):
            layers.append(Residual(inside, outside, 2 if block == 0 and stage else 1))
            inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


model = network().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
for step in range(3):
    images = torch.randn(args.batch_size, 3, args.size, args.size, device="cuda")
    labels = torch.randint(1000, (args.batch_size,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
        loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, float(loss))
