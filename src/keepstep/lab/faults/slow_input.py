# SPDX-License-Identifier: Apache-2.0
"""The rank's storage is slow: each of its batches takes half a second to arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import rest

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SECONDS = 0.5


def change_batch(batch: Any) -> Any:
    rest(SECONDS)
    return batch


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
