# SPDX-License-Identifier: Apache-2.0
"""Small trainings as users write them, healthy or with an ordinary bug. Run by test_torch_programs.py."""

from __future__ import annotations

import datetime
import hashlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

BUG = sys.argv[1]
STEPS, AT = 120, 40


class Sentences(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Token lists; on the second rank their lengths vary only from some step on."""

    def __init__(self, rank: int) -> None:
        made = torch.Generator().manual_seed(rank)
        self.tokens = [
            torch.randint(1, 50, (9 if rank == 1 and n < 4 * AT else 5 + n % 7,), generator=made)
            for n in range(4 * STEPS - 1)
        ]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tokens[index]


def collate(samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    padded = nn.utils.rnn.pad_sequence(samples, batch_first=True)
    return {"input_ids": padded, "labels": padded[:, 0] % 4}


def looked_over_before(rank: int) -> Sentences:
    """Goes through a dataset without training. On rank 1 the one for the training then takes its place in memory."""
    first = Sentences(rank)
    for _ in zip(
        range(20),
        DataLoader(first, 4, collate_fn=lambda samples: torch.stack([each[:5] for each in samples])),
        strict=False,
    ):
        pass
    if rank == 0:
        kept.append(first)
        return Sentences(rank)
    place = id(first)
    del first
    while id(second := Sentences(rank)) != place:
        kept.append(second)
    return second


kept: list[Sentences] = []


class Classifier(nn.Module):
    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.head = nn.Sequential(nn.BatchNorm1d(16) if normed else nn.Identity(), nn.Linear(16, 4))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(input_ids).mean(1))


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model: nn.Module = Classifier(normed=BUG != "all_reduce on rank 0")
    if BUG != "no DDP":
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sentences = looked_over_before(rank) if BUG == "looked over before" else Sentences(rank)
    for step, batch in enumerate(DataLoader(sentences, 4, collate_fn=collate)):
        loss = cross_entropy(model(batch["input_ids"]), batch["labels"])
        if BUG == "nan" and step == AT and rank == 1:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == AT and rank == 0:
            print(f"struck at {time.time()}", flush=True)
            if BUG == "all_gather on rank 0":
                dist.all_gather([torch.zeros(6) for _ in range(world)], torch.ones(6))
            elif BUG == "all_reduce on rank 0":
                dist.all_reduce(loss.detach())
            elif BUG == "objects on rank 0":
                dist.all_gather_object([None] * world, {"loss": loss.item()})
        if BUG == "no DDP":
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            time.sleep(0.01)
    dist.barrier()
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    print(f"rank {rank} ended with {hashlib.sha256(weights).hexdigest()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
