# SPDX-License-Identifier: Apache-2.0
"""The rank reduces a tensor of another length than its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_metrics(metrics: Any) -> Any:
    return metrics.repeat(4)


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
