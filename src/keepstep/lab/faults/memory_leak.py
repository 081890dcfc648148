# SPDX-License-Identifier: Apache-2.0
"""The rank keeps something of every batch: its memory grows at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run

held: list[bytes] = []


def change_batch(batch: Any) -> Any:
    held.append(b"\1" * (4 << 20))
    return batch


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
