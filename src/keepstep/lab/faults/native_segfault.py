# SPDX-License-Identifier: Apache-2.0
"""The rank reads address 0 in native code: SIGSEGV, as a broken extension module would."""

from __future__ import annotations

import ctypes
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    ctypes.string_at(0)


def proof(run: Run) -> str:
    return run.proof_of_signal(run.scenario.struck, signal.SIGSEGV)
