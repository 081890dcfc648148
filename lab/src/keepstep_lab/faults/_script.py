# SPDX-License-Identifier: Apache-2.0
"""Not a fault itself: a mistake in the training script, made by editing the run's copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class ScriptMistake(Fault):
    """The script that runs says something else than the job's."""

    edits: tuple[tuple[str, str], ...] = ()
    """What the script says once, and what it says then."""
    shown = ""
    """What proves it; what the last edit wrote when empty."""

    def edits_of(self, run: Run) -> tuple[tuple[str, str], ...]:
        """Those of this run's framework."""
        return self.edits

    def prepare(self, run: Run) -> None:
        path = run.app / "train.py"
        for right, wrong in self.edits_of(run):
            text = path.read_text()
            if text.count(right) != 1:
                raise run.unproven(f"the script does not say {right!r} once")
            path.write_text(text.replace(right, wrong))

    def proof(self, run: Run) -> str:
        wrong = self.shown or self.edits_of(run)[-1][1].strip()
        for number, line in enumerate((run.app / "train.py").read_text().splitlines(), 1):
            if wrong in line:
                return f"train.py:{number} says {line.strip()!r}"
        raise run.unproven(f"the script does not say {wrong!r}")
