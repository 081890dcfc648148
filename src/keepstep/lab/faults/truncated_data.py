# SPDX-License-Identifier: Apache-2.0
"""The rank's data file lost its second half, as after an interrupted copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    from keepstep.lab import data

    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    whole = path.read_bytes()
    # of a TFRecord file inside a record's data: a cut in its 12 byte header reads as a normal end of file
    path.write_bytes(whole[: len(whole) // 2 + 40])
    run.strike(f"{path.name} was cut from {len(whole)} to {path.stat().st_size} bytes")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
