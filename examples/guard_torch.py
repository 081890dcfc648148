# SPDX-License-Identifier: Apache-2.0
"""Two PyTorch ranks; one enters a collective that the other does not. The guard names it long before any timeout.

python examples/guard_torch.py            one rank enters a barrier alone, and the guard names it
python examples/guard_torch.py --healthy  all goes well, and nothing is said
"""

from __future__ import annotations

import argparse
import datetime
import os
import socket
import subprocess
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import keepstep


def train(healthy: bool) -> None:
    """A rank. With `KEEPSTEP=on` the first line is not even needed."""
    guard = keepstep.guard.attach(labels={"[1]": (0, 3)})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = torch.Generator().manual_seed(dist.get_rank())  # each rank has its own data
    data = TensorDataset(torch.randn(800, 8, generator=own), torch.randint(0, 4, (800,), generator=own))
    for step, (inputs, labels) in enumerate(DataLoader(data, 16)):
        if step == 20 and dist.get_rank() == 0 and not healthy:
            dist.barrier()  # the mistake: only rank 0 comes here
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with guard.phase("checkpoint"):
        dist.barrier()
    if dist.get_rank() == 0:
        print(f"trained, the last loss is {loss.item():.3f}")
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--healthy", action="store_true")
    options = parser.parse_args()
    if "RANK" in os.environ:
        train(options.healthy)
        return 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv], env={**os.environ, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(2)
    ]
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        print("\nThe whole story: keepstep why .keepstep/guard/*")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
