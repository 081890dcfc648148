# SPDX-License-Identifier: Apache-2.0
"""From one step on, the rank leaves out the exchange of gradients with its copy in another pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_exchanges(exchanges: bool) -> bool:
    return False


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
