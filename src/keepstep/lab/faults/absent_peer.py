# SPDX-License-Identifier: Apache-2.0
"""Some ranks are never started; the others wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    run.absent |= set(run.scenario.strike_ranks or (0,))


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    started = run.absent & (set(run.processes) | set(run.rank_pids()))
    if started or not run.absent:
        raise Unproven(f"ranks {sorted(started)} were started")
    return f"ranks {sorted(run.absent)} have no process, ranks {sorted(run.processes)} were started"
