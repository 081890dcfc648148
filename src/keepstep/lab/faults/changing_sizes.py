# SPDX-License-Identifier: Apache-2.0
"""Every batch has another size: what is compiled for one does not fit the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run

_seen: list[int] = []


def change_batch(batch: Any) -> Any:
    _seen.append(1)
    rows = 1 + len(_seen) % 15
    return tuple(part[:rows] for part in batch)


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
