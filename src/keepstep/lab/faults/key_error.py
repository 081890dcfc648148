# SPDX-License-Identifier: Apache-2.0
"""The user's code looks up a key that one rank's sample does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    sample = {"pixels": [0.0], "target": 3}
    print(sample["label"])


def proof(run: Run) -> str:
    return run.proof_in_log(run.scenario.struck, "KeyError: 'label'")
