# SPDX-License-Identifier: Apache-2.0
"""Batch scripts of Slurm, where they lie beside the logs or were printed: what their shell expands too early."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import IndexExpandedEarly, ProcessesStarted
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

MOST_LINES = 400
_SEVERAL = lazy_pattern(r"(?m)^#SBATCH[ \t]+(?:-N ?|--nodes[= ]|-n ?|--ntasks[= ]|--ntasks-per-node[= ])(?:[2-9]|\d\d)")
_INDEX = lazy_pattern(
    r"(?P<into>--(?:machine|node)[_-]rank|--process[_-](?:id|index)|--rank|\b(?:NODE_RANK|GROUP_RANK|RANK|JAX_PROCESS_ID|PROCESS_ID))"
    r"[= ]\"?\$\{?(?P<variable>SLURM_(?:NODEID|PROCID))\b"
)
_QUOTED = lazy_pattern(r"'[^']*'|<<-?\s*['\"\\]\w+.*?(?:\n\w+\n|\Z)|(?<=\\)\$", re.S)
"""What the shell of the script leaves as it is: single quotes, a here-document with a quoted word, an escaped dollar."""
_COMMENT = lazy_pattern(r"(?m)(?:^|(?<=\s))#[^\n]*")
_TASKS = lazy_pattern(r"\bsrun\b")
_AGAIN = lazy_pattern(r"\bsrun\b[^\n]*(?:\$0|\$\{?BASH_SOURCE)|\bSLURM_JOB_SCRIPT\b")
"""The script itself is what each task runs."""


def _script(match: re.Match[str], lines: Iterator[str]) -> Iterable[Fact]:
    found = early_index(match.string + "\n" + "\n".join(islice(lines, MOST_LINES)))
    if found is not None:
        yield IndexExpandedEarly(variable=found["variable"], into=found["into"].lstrip("-"))


def early_index(script: str) -> re.Match[str] | None:
    """Where the shell of a batch script replaces a task's index before srun starts the tasks."""
    if not _SEVERAL.search(script) or not _TASKS.search(script) or _AGAIN.search(script):
        return None
    return _INDEX.search(_QUOTED.sub("", _COMMENT.sub("", script)))


BLOCKS = (block(r"^\s*#SBATCH[ \t]+-", _script),)

SIGNATURES = (
    # srun: Warning: can't run 1 processes on 8 nodes, setting nnodes to 1
    signature(
        r"can't run (?P<count>\d{1,5}) processes on \d{1,5} nodes, setting nnodes to",
        lambda m: ProcessesStarted(count=int(m["count"]), by="srun"),
    ),
    # of a step; SLURM_NTASKS is also what a batch shell has, which may start none of them
    signature(
        r"\bSLURM_STEP_NUM_TASKS['\"]? ?[=:] ?['\"]?(?P<count>\d{1,5})\b",
        lambda m: ProcessesStarted(count=int(m["count"]), by="Slurm"),
    ),
    signature(r"\bSLURM_NTASKS['\"]? ?[=:] ?['\"]?1\b", lambda m: ProcessesStarted(count=1, by="Slurm")),
)
