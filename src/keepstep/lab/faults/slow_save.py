# SPDX-License-Identifier: Apache-2.0
"""Not a fault: the checkpoint goes to a slow disk; the others wait for rank 0."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SECONDS = 14.0
PIECE = 1 << 20


def change_save(path: str) -> str:
    end = time.monotonic() + SECONDS
    with open(f"{path}.optimizer", "wb") as file:
        while time.monotonic() < end:
            write_piece(file)
    return path


def write_piece(file: Any) -> None:
    """A megabyte, at about 10 MB/s."""
    file.seek(0)
    file.write(os.urandom(PIECE))
    file.flush()
    os.fsync(file.fileno())
    time.sleep(0.1)


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
