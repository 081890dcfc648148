# SPDX-License-Identifier: Apache-2.0
"""The programs behind ``torch-*/`` and ``lab_mesh/``, tidied: ``python make_dumps.py skip|mesh|JOB OUT``.

Each ran once with the gloo backend under torch 2.8.0, 2.9.1, 2.10.0 and 2.13.0, which are the versions whose recorder
knows gloo and whose wheels are small. ``skip``: four ranks in one group, of which rank 2 sleeps before a collective.
``mesh``: eight ranks in 2 x 2 x 2, of which rank 5 does. ``lab_mesh`` is the lab's own job (``lab/jobs/torch_mesh.py``
with the faults ``sleep_long`` and ``skipped_exchange`` on rank 5 from step 4) under torch 2.13. Paths of the machine
were replaced by others of the same length.

A rank dumps its recorder once its main thread has not moved for a while, so all of them show the same hang.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from pathlib import Path
from typing import Any

RANKS = {"skip": 4, "mesh": 8}
STILL_S = 12.0


def dump_when_still(out: Path) -> None:
    main, place, since = threading.main_thread().ident, None, time.monotonic()
    while time.monotonic() - since < STILL_S or "torch.distributed" not in sys.modules:
        frame: Any = sys._current_frames().get(main or 0)
        stack = []
        while frame is not None:
            stack.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        if stack != place:
            place, since = stack, time.monotonic()
        time.sleep(0.5)
    native, rank = sys.modules["torch._C._distributed_c10d"], os.environ["RANK"]
    (out / f"comm_lib_trace_rank_{rank}").write_bytes(native._dump_fr_trace())
    (out / f"comm_lib_trace_rank_{rank}.json").write_bytes(native._dump_fr_trace_json())
    time.sleep(60)  # a rank that ends would fail the others
    os._exit(0)


def skip() -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    for step in range(6):
        x = torch.ones(4)
        if dist.get_rank() == 2 and step == 3:
            time.sleep(600)
        dist.all_reduce(x)
        dist.broadcast(x, 0)


def mesh() -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo")
    found = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("data", "context", "tensor"))
    for step in range(8):
        x = torch.ones(16)
        if dist.get_rank() == 5 and step == 4:
            time.sleep(600)
        for axis in ("tensor", "context", "data"):
            dist.all_reduce(x, group=found.get_group(axis))


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    os.environ |= {"TORCH_FR_BUFFER_SIZE": "12", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29653"}
    os.environ |= {"WORLD_SIZE": str(RANKS.get(what, 8)), "OMP_NUM_THREADS": "1"}
    children = []
    for rank in range(RANKS.get(what, 8)):
        pid = os.fork()
        if pid == 0:
            os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
            threading.Thread(target=dump_when_still, args=(folder,), daemon=True).start()
            if what in RANKS:
                globals()[what]()
            else:
                runpy.run_path(what, run_name="__main__")
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
