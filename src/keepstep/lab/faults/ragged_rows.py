# SPDX-License-Identifier: Apache-2.0
"""Not the data's fault: its rows are not a multiple of the batch size, so the last batch is smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def proof(run: Run) -> str:
    from keepstep.lab import data
    from keepstep.lab.run import Unproven

    batch = int(run.scenario.args[run.scenario.args.index("--batch") + 1])
    rest = data.ROWS % batch
    if rest == 0:
        raise Unproven(f"{data.ROWS} rows are a multiple of {batch}")
    return f"of {data.ROWS} rows a file in batches of {batch}, {rest} are left"
