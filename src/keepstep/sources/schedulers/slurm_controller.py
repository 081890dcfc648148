# SPDX-License-Identifier: Apache-2.0
"""What Slurm's controller says about a running job: which nodes it still counts, and how the job was started."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from keepstep.sources.schedulers.scheduler_answer import Answer, ask_client

LIMIT_S = 5.0
"""For each question: it is asked again soon, and an old answer is worth nothing."""
LONGEST_WORDS = 1 << 20
AskWithin = Callable[[Sequence[str], float], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    """A job, as the controller sees it now."""

    state: str
    nodes: str
    """Those that it still counts, as Slurm writes them: ``gpu[01-03,7]``."""
    restarts: int = 0
    batch_host: str | None = None
    """The node that the job's own script runs on, if it has one."""


def job_now(job: str, ask: AskWithin = ask_client) -> JobNow | str:
    """What the controller says about a job, or why it says nothing."""
    answer = ask(["scontrol", "show", "job", "-o", job], LIMIT_S)
    if answer.status != 0:
        return answer.complaint
    return parse_job(answer.text) or "scontrol's answer cannot be read"


def parse_job(text: str) -> JobNow | None:
    """One line of ``scontrol show job -o``."""
    line = text[:LONGEST_WORDS]
    state = re.search(r"(?:^| )JobState=(\w+)", line)
    if state is None:
        return None
    nodes = re.search(r" NodeList=(\S*)", line)
    restarts = re.search(r" Restarts=(\d{1,9})\b", line)
    batch = re.search(r" BatchHost=(\S+)", line) if re.search(r" BatchFlag=1\b", line) else None
    told = nodes[1] if nodes and nodes[1] != "(null)" else ""
    return JobNow(
        state=state[1], nodes=told, restarts=int(restarts[1]) if restarts else 0, batch_host=batch[1] if batch else None
    )


def node_words(node: str, ask: AskWithin = ask_client) -> str | None:
    """The state of a node with its reason: ``DOWN+NOT_RESPONDING (Not responding)``; None if Slurm says nothing."""
    answer = ask(["scontrol", "show", "node", "-o", node], LIMIT_S)
    return parse_node(answer.text) if answer.status == 0 else None


def parse_node(text: str) -> str | None:
    """The same, from one line of ``scontrol show node -o``."""
    line = text[:LONGEST_WORDS]
    state = re.search(r"(?:^| )State=(\S+)", line)
    reason = re.search(r" Reason=(.{1,200}?)(?: \[\S+\])?(?: [A-Z]\w*=|\s*$)", line)
    if state is None:
        return None
    return state[1] + (f" ({reason[1].strip()})" if reason else "")


def setting(name: str, ask: AskWithin = ask_client) -> str | None:
    """One setting of the cluster, such as KillOnBadExit."""
    found = re.search(rf"^{name}\s*=\s*(.*?)\s*$", ask(["scontrol", "show", "config"], LIMIT_S).text, re.M)
    return found[1] if found else None


def requeue(job: str, ask: AskWithin = ask_client) -> str | None:
    """Ask Slurm to run the job again. Returns what it objects to. The only question that changes anything."""
    answer = ask(["scontrol", "requeue", job], LIMIT_S)
    return None if answer.status == 0 else answer.complaint


# -- how the job was started ----------------------------------------------------------------------------------------


def batch_script(job: str, ask: AskWithin = ask_client) -> str | None:
    """The job's script, if it has one."""
    answer = ask(["scontrol", "write", "batch_script", job, "-"], LIMIT_S)
    return answer.text[:LONGEST_WORDS] if answer.status == 0 and answer.text.startswith("#!") else None


def srun_words(step: str, node: str, ask: AskWithin = ask_client) -> list[str] | None:
    """The command line of the step's srun, if that runs on this node."""
    answer = ask(["scontrol", "show", "step", "-o", step], LIMIT_S)
    found = re.search(r"\bSrunHost:Pid=([^\s:]+):(\d{1,9})\b", answer.text)
    if answer.status != 0 or found is None or found[1].partition(".")[0] != node.partition(".")[0]:
        return None
    words: list[str] = []
    with contextlib.suppress(OSError):
        read = Path(f"/proc/{found[2]}/cmdline").read_bytes()[:LONGEST_WORDS]
        words = [word.decode(errors="replace") for word in read.split(b"\0")]
    return words if words and Path(words[0]).name == "srun" else None
