# SPDX-License-Identifier: Apache-2.0
"""The torch checkpoint to resume from lost its second half, as after a kill in the middle of a save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import good_checkpoint

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    good_checkpoint.prepare(run)
    path = run.work / "last.pt"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    run.strike(f"{path.name} was cut from {len(whole)} to {len(whole) // 2} bytes")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
