# SPDX-License-Identifier: Apache-2.0
"""The rank runs machine code that this CPU does not have: SIGILL, as a binary built for a newer CPU would."""

from __future__ import annotations

import ctypes
import mmap
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

UD2 = b"\x0f\x0b"


def at(step: int, rank: int) -> None:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(UD2)
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def proof(run: Run) -> str:
    return run.proof_of_signal(run.scenario.struck, signal.SIGILL)
