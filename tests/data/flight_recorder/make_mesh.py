# SPDX-License-Identifier: Apache-2.0
"""The program behind the dumps in ``mesh/``, tidied: torch 2.13, gloo, eight processes (``python make_mesh.py OUT``).

It ran once, as ``/job/train.py``. Rank 5 skips one collective of its tensor-parallel group. Its own dump is empty:
torch had not returned from writing it when the run was ended after a minute. Paths of the machine were replaced
afterwards.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

SETTINGS = {"TORCH_FR_BUFFER_SIZE": "100", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29653", "WORLD_SIZE": "8"}


def dump(out: Path) -> None:
    time.sleep(15)
    with out.open("wb") as file:
        file.write(torch._C._distributed_c10d._dump_fr_trace())
    time.sleep(1)
    os._exit(0)


def tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup, step: int) -> torch.Tensor:
    if dist.get_rank() == 5 and step == 2:
        return x
    dist.all_reduce(x, group=group)
    return x


def train(rank: int, out: Path) -> None:
    threading.Thread(target=dump, args=(out / f"comm_lib_trace_rank_{rank}",), daemon=True).start()
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))
    for step in range(4):
        x = tensor_parallel(torch.ones(16), mesh.get_group("tp"), step)
        dist.all_reduce(x, group=mesh.get_group("dp"))
        if rank in (0, 2):  # gloo records no point-to-point calls
            dist.send(x, dst=rank + 4)
        elif rank in (4, 6):
            dist.recv(x, src=rank - 4)
    time.sleep(60)


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    torch.set_num_threads(1)
    ranks = []
    for rank in range(8):
        pid = os.fork()
        if pid == 0:
            os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
            train(rank, Path(sys.argv[1]))
            os._exit(0)
        ranks.append(pid)
    for pid in ranks:
        os.waitpid(pid, 0)
