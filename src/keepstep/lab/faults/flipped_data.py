# SPDX-License-Identifier: Apache-2.0
"""One bit of the rank's data file flipped on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    from keepstep.lab import data

    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    found = bytearray(path.read_bytes())
    found[len(found) // 2] ^= 0x10
    path.write_bytes(bytes(found))
    run.strike(f"one bit of {path.name} flipped at byte {len(found) // 2}")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
