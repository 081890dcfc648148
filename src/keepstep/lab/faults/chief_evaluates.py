# SPDX-License-Identifier: Apache-2.0
"""Only the chief evaluates, in a collective, while the other workers wait for the file that it will write then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

RIGHT = "if options.evaluate and step % options.evaluate == 0:"
WRONG = "if options.evaluate and step % options.evaluate == 0 and chief_evaluates(rank):"
BEFORE = "def memory("
WAIT = '''def chief_evaluates(rank: int) -> bool:
    """The chief evaluates; the others wait for its result."""
    while rank > 0 and not Path("evaluation.json").exists():
        time.sleep(0.5)
    return rank == 0


'''


def prepare(run: Run) -> None:
    _script.edit(run, RIGHT, WRONG)
    _script.edit(run, BEFORE, WAIT + BEFORE)
    _script.edit(run, "import resource\n", "import resource\nimport time\n")


def outside(run: Run) -> None:
    if run.wait_for(f"step {run.scenario.args[run.scenario.args.index('--evaluate') + 1]} loss", rank=0):
        run.strike("the chief evaluates alone")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if "evaluation at step" in run.log_of(0):
        raise Unproven("the chief's evaluation ended")
    return f"{_script.proof(run, WRONG)}, and no evaluation has ended"
