# SPDX-License-Identifier: Apache-2.0
"""One input file for several workers that shard by file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    for path in sorted(run.data.glob("points-*"))[1:]:
        path.unlink()
    for args in run.args:
        args += ["--files", "1"]


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    files = list(run.data.glob("points-*"))
    if len(files) != 1:
        raise Unproven(f"there are {len(files)} files")
    return f"there is one file for {run.scenario.ranks} workers"
