# SPDX-License-Identifier: Apache-2.0
"""A compiled extension needs a shared library that the node of this rank does not have."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

NAME = "libcudart.so.12"


def at(step: int, rank: int) -> None:
    ctypes.CDLL(NAME)


def proof(run: Run) -> str:
    return run.proof_in_log(run.scenario.struck, f"{NAME}: cannot open shared object file")
