# SPDX-License-Identifier: Apache-2.0
import os
from typing import NamedTuple

import torch


class LaunchEnv(NamedTuple):
    proc: int
    local: int
    procs: int

    @property
    def cuda(self):
        return torch.device(f"cuda:{self.proc}")  # BUG COD122


def read_env():
    return LaunchEnv(
        int(os.environ["OMPI_COMM_WORLD_RANK"]),
        int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]),
        int(os.environ["OMPI_COMM_WORLD_SIZE"]),
    )
