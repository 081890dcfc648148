# SPDX-License-Identifier: Apache-2.0
"""A DataLoader worker of the rank waits for a read that never ends: the rank gets no next batch."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from . import tell

if TYPE_CHECKING:
    from keepstep.lab.run import Run

STUCK_AT = 400
"""A sample in the middle of the shard."""


class Remote:
    """A data set on storage that stops answering."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        if index == STUCK_AT:
            tell("a loader worker reads from storage that does not answer")
            read_remote()
        return self.data[index]


def change_data(data: Any) -> Any:
    return Remote(data)


def read_remote() -> bytes:
    """Read from a connection that nobody writes to, as from a file server that is gone."""
    ours, _ = socket.socketpair()
    return ours.recv(1)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if not any("does not answer" in what for _, what in run.strikes()):
        raise Unproven("no worker got to the stuck sample")
    workers = run.children_of(run.pid_of(run.scenario.struck))
    return f"{run.strikes()[-1][1]}; rank {run.scenario.struck} still has {len(workers)} workers"
