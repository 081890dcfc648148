"""A decoder of 70 billion parameters (80 layers, grouped queries), sharded with FSDP2, built on the device `meta`."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=80)
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--hidden", type=int, default=28672)
parser.add_argument("--heads", type=int, default=64)
parser.add_argument("--kv-heads", type=int, default=8)
parser.add_argument("--vocabulary", type=int, default=128256)
parser.add_argument("--length", type=int, default=4096)
parser.add_argument("--batch-size", type=int, default=1)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
HEAD = args.width // args.heads


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(args.width, args.width, bias=False)
        self.k = nn.Linear(args.width, args.kv_heads * HEAD, bias=False)
        self.v = nn.Linear(args.width, args.kv_heads * HEAD, bias=False)
        self.o = nn.Linear(args.width, args.width, bias=False)

    def forward(self, x, turn):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, args.heads, HEAD).transpose(1, 2)
        k = self.k(x).view(b, t, args.kv_heads, HEAD).transpose(1, 2)
        v = self.v(x).view(b, t, args.kv_heads, HEAD).transpose(1, 2)
        q, k = q * turn, k * turn
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(args.width), nn.RMSNorm(args.width)
        self.attention = Attention()
        self.up = nn.Linear(args.width, args.hidden, bias=False)
        self.gate = nn.Linear(args.width, args.hidden, bias=False)
        self.down = nn.Linear(args.hidden, args.width, bias=False)

    def forward(self, x, turn):
        x = x + self.attention(self.norm1(x), turn)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
        self.norm = nn.RMSNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        turn = torch.ones(tokens.shape[1], HEAD, device=x.device, dtype=x.dtype)
        for block in self.blocks:
            x = checkpoint(block, x, turn, use_reentrant=False)
        return self.head(self.norm(x))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
with torch.device("meta"):
    model = Decoder()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.blocks:
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
model.to_empty(device="cuda")
with torch.no_grad():
    for each in model.parameters():
        each.normal_(std=0.02)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(args.steps):
    tokens = torch.randint(args.vocabulary, (args.batch_size, args.length + 1), device="cuda")
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step}: loss {loss.item():.3f}")
dist.destroy_process_group()
