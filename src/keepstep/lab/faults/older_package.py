# SPDX-License-Identifier: Apache-2.0
"""The rank's host has an older version of a small package, which works, but computes something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import other_version

if TYPE_CHECKING:
    from keepstep.lab.run import Run

OLD = '__version__ = "1.4.2"\n\n\ndef scale(step):\n    return 1.0\n'

at = other_version.at


def prepare(run: Run) -> None:
    other_version.prepare(run)
    (run.work / "packages-old" / "warmup.py").write_text(OLD)


def proof(run: Run) -> str:
    return f"{other_version.proof(run)}; {run.proof_in_log(run.scenario.struck, 'learning rate scale')}"
