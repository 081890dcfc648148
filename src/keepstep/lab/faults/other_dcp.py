# SPDX-License-Identifier: Apache-2.0
"""The sharded checkpoint to resume from is of a model with another layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import good_dcp

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    good_dcp.prepare(run, width=48)
    run.strike("the checkpoint is of a model of width 48, the job's has 32")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
