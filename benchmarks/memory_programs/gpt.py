"""A decoder of text: its own attention, learned positions, tied weights; precision and checkpointing by option."""

import argparse
import contextlib
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--vocabulary", type=int, default=50304)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--precision", choices=("float32", "autocast", "bfloat16"), default="float32")
parser.add_argument("--checkpoint", action="store_true")
parser.add_argument("--plain-attention", action="store_true")
parser.add_argument("--fused", action="store_true")
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
        self.qkv = nn.Linear(args.width, 3 * args.width)
        self.proj = nn.Linear(args.width, args.width)
        self.mlp = nn.Sequential(
            nn.Linear(args.width, 4 * args.width),
            nn.GELU(),
            nn.Linear(4 * args.width, args.width),
            nn.Dropout(args.dropout),
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        q, k, v = (each.view(b, t, args.heads, c // args.heads).transpose(1, 2) for each in (q, k, v))
        if args.plain_attention:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
            mask = torch.tril(torch.ones(t, t, device=x.device)).view(1, 1, t, t)
            scores = scores.masked_fill(mask == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=args.dropout, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(args.vocabulary, args.width)
        self.wpe = nn.Embedding(args.length, args.width)
        self.blocks = nn.ModuleList([Block() for _ in range(args.layers)])
        self.ln = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x, y):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False) if args.checkpoint else block(h)
        logits = self.head(self.ln(h))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)
model = GPT().to(device)
if args.precision == "bfloat16":
    model = model.bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=args.fused)
cast = torch.autocast("cuda", dtype=torch.bfloat16) if args.precision == "autocast" else contextlib.nullcontext()
for step in range(args.steps):
    for _ in range(args.accumulate):
        x = torch.randint(args.vocabulary, (args.batch_size, args.length)).to(device)
        y = torch.randint(args.vocabulary, (args.batch_size, args.length)).to(device)
        with cast:
            loss = model(x, y) / args.accumulate
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: loss {loss.item():.4f}")
