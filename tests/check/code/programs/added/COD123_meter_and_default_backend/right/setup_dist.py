# SPDX-License-Identifier: Apache-2.0
import os

import torch
import torch.distributed as dist

BACKEND = "nccl"


def setup(backend=BACKEND):
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group(backend=backend)
    return local
