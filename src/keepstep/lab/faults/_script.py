# SPDX-License-Identifier: Apache-2.0
"""Not a fault itself: a mistake in the training script, made by editing the run's copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def edit(run: Run, right: str, wrong: str) -> None:
    """Write ``wrong`` where the script says ``right``."""
    from keepstep.lab.run import Unproven

    path = run.app / "train.py"
    text = path.read_text()
    if text.count(right) != 1:
        raise Unproven(f"the script does not say {right!r} once")
    path.write_text(text.replace(right, wrong))


def proof(run: Run, wrong: str) -> str:
    """The script that ran says it."""
    from keepstep.lab.run import Unproven

    for number, line in enumerate((run.app / "train.py").read_text().splitlines(), 1):
        if wrong in line:
            return f"train.py:{number} says {line.strip()!r}"
    raise Unproven(f"the script does not say {wrong!r}")
