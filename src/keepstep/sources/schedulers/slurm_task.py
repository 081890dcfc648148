# SPDX-License-Identifier: Apache-2.0
"""What became of a step's task on another node, as Slurm and that node say: asked by a small step on that node."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path

from keepstep.sources.schedulers.scheduler_answer import ask_client
from keepstep.sources.schedulers.slurm_controller import AskWithin

LIMIT_S = 10.0
SCRIPT = """\
echo pids; scontrol listpids "$1" "$3" 2>&1
echo sockets; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
echo note; if [ -e "$2" ]; then echo there; else echo absent; fi
echo end"""
"""The processes of the step on that node, who listens there, and whether the task's note is still there.

The node is named: where a machine runs several ``slurmd``, scontrol would else ask any of them.
"""
HEADER = ["PID", "JOBID", "STEPID", "LOCALID", "GLOBALID"]
LISTENS = "0A"
KEPT = ("SLURM_CONF", "SLURM_JWT")
"""Of Slurm's variables: the others say how this step was started, and srun would take them for options."""


class TaskState(Enum):
    """What is known about it."""

    UNKNOWN = "unknown"
    LIVES = "lives"
    ENDED = "ended"
    """By itself: it has taken its note away."""
    KILLED = "killed"
    """No process of it is left, and nobody took its note away. A task of a step is never started again."""


def look(
    step: str,
    node: str,
    *,
    note: Path,
    ports: Collection[int],
    env: Mapping[str, str] = os.environ,
    ask: AskWithin = ask_client,
) -> TaskState:
    """What became of the task of ``step`` (as in ``12.0``) on ``node``, which listens on one of ``ports`` if it lives.

    ``note``: a file on that node that the task makes when it begins to lead, and removes when it ends by itself.
    """
    job = step.partition(".")[0]
    without = [word for name in env if name.startswith("SLURM_") and name not in KEPT for word in ("-u", name)]
    srun = ["srun", f"--jobid={job}", "--overlap", f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--mem=0"]
    srun += ["--gres=none", "--mpi=none", "--immediate=5", "--input=none", "--quiet", "--export=PATH,SLURM_CONF"]
    answer = ask(["env", *without, *srun, "sh", "-c", SCRIPT, "sh", step, str(note), node], LIMIT_S)
    return read(answer.text, step, ports) if answer.status == 0 else TaskState.UNKNOWN


def read(text: str, step: str, ports: Collection[int]) -> TaskState:
    """The same, from what the node has answered. Whatever is not understood proves nothing."""
    found = re.fullmatch(r"pids\n(.*)sockets\n(.*)note\n(there|absent)\nend\n", text, re.S)
    if found is None:
        return TaskState.UNKNOWN
    pids, sockets, note = found.groups()
    job, _, number = step.partition(".")
    if re.search(rf"^\d+ +{re.escape(job)} +{re.escape(number)} ", pids, re.M) or _listening(sockets) & {*ports}:
        return TaskState.LIVES
    others = [line for line in pids.splitlines() if not line.startswith(f"StepId={step} does not exist")]
    if [line.split() for line in others] != [HEADER] or "local_address" not in sockets:
        return TaskState.UNKNOWN
    return TaskState.KILLED if note == "there" else TaskState.ENDED


def _listening(sockets: str) -> set[int]:
    """The ports that programs listen on, from ``/proc/net/tcp`` and ``tcp6``."""
    found = re.findall(r"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) ", sockets, re.M)
    return {int(port, 16) for port, state in found if state == LISTENS}
