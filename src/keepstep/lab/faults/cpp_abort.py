# SPDX-License-Identifier: Apache-2.0
"""Native code throws a C++ exception that nothing catches: std::terminate, then SIGABRT."""

from __future__ import annotations

import ctypes
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    library = ctypes.CDLL("libstdc++.so.6")
    library._ZSt20__throw_length_errorPKc(b"vector::_M_default_append")


def proof(run: Run) -> str:
    return run.proof_of_signal(run.scenario.struck, signal.SIGABRT)
