# SPDX-License-Identifier: Apache-2.0
"""The rank's next batch never arrives: the read waits on storage that does not answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    read_next_batch()


def read_next_batch() -> bytes:
    """Read from a pipe that nobody writes to, as from a file server that is gone."""
    reader, _ = os.pipe()
    return os.read(reader, 1)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = run.proof_that_it_struck()
    if not run.alive(run.scenario.struck):
        raise Unproven("the rank has ended")
    return f"{told} and waits in read()"
