# SPDX-License-Identifier: Apache-2.0
"""Another program already listens on the port of rank 0 (torch, TensorFlow) or of the coordinator (JAX)."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

LISTENING = "0A"


def prepare(run: Run) -> None:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        taken = run.stack.enter_context(socket.socket(family))
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind((address, run.ports[0]))
        taken.listen()


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listeners = {row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == run.ports[0]}
    ours = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists() or path.is_symlink()}
    if not any(f"socket:[{inode}]" in ours for inode in listeners):
        raise Unproven(f"port {run.ports[0]} is not ours")
    return f"port {run.ports[0]} belongs to another program than the job"
