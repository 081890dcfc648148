# SPDX-License-Identifier: Apache-2.0
"""Who a process is, by the flags and variables of the command that started it, where a log shows that command."""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import WorldSeen
from keepstep.parse.signature import signature

_ROLE = re.compile(r"--(?:job[_-]?name|task[_-]?type|role)[= ]['\"]?(?P<role>worker|ps|chief|master|evaluator)\b")
_SIZE = re.compile(r"--(?:num[_-]?processes|world[_-]?size|num[_-]?workers|nnodes)[= ](?P<size>\d+)\b")
_SEVERAL = re.compile(r"--(?:nproc[_-]per[_-]node|gpus[_-]per[_-]node|num[_-]gpus)[= ](?:[2-9]|\d\d|gpu|auto)")


def _started(match: re.Match[str]) -> Fact | None:
    line = match.string
    if _SEVERAL.search(line):
        return None
    index = int(match["index"])
    role = _ROLE.search(line)
    size = _SIZE.search(line)
    return WorldSeen(index=index, role=role["role"] if role else None, size=int(size["size"]) if size else None)


SIGNATURES = (
    signature(r"--(?:task[_-]?(?:index|id)|task|worker[_-]index)[= ](?P<index>\d{1,5})\b", _started,
              anchors=("--task", "--worker_index", "--worker-index")),
    signature(r"--(?:process[_-](?:id|index)|machine[_-]rank|node[_-]rank|rank)[= ](?P<index>\d{1,5})\b", _started,
              anchors=("--process_i", "--process-i", "--machine_rank", "--machine-rank", "--node_rank", "--node-rank", "--rank")),
    signature(r"^\$? ?(?:\w+=\S+ )*(?:RANK|NODE_RANK|SLURM_PROCID|JAX_PROCESS_ID|HOROVOD_RANK)=(?P<index>\d{1,5}) (?:\w+=\S+ )*\S*python",
              _started, anchors=("RANK=", "SLURM_PROCID=", "JAX_PROCESS_ID=")),
)
