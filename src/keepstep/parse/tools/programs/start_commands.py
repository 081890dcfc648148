# SPDX-License-Identifier: Apache-2.0
"""Who a process is, by the flags and variables of the command that started it, where a log shows that command."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import AddressIsLocal, WorldSeen
from keepstep.parse.scan.signature import signature

_ROLE = lazy_pattern(r"--(?:job[_-]?name|task[_-]?type|role)[= ]['\"]?(?P<role>worker|ps|chief|master|evaluator)\b")
_SIZE = lazy_pattern(r"--(?:num[_-]?processes|world[_-]?size|num[_-]?workers|nnodes)[= ](?P<size>\d+)\b")
_SEVERAL = lazy_pattern(r"--(?:nproc[_-]per[_-]node|gpus[_-]per[_-]node|num[_-]gpus)[= ](?:[2-9]|\d\d|gpu|auto)")


def _started(match: re.Match[str]) -> Fact | None:
    line = match.string
    if _SEVERAL.search(line):
        return None
    index = int(match["index"])
    role = _ROLE.search(line)
    size = _SIZE.search(line)
    return WorldSeen(index=index, role=role["role"] if role else None, size=int(size["size"]) if size else None)


_NODES = lazy_pattern(
    r"(?:NODE_RANK|SLURM_NODEID|GROUP_RANK|--node[_-]rank|--machine[_-]rank)[=: ] ?['\"]?[1-9]\d{0,3}\b|"
    r"(?:NNODES|SLURM_NNODES|--nnodes|--num[_-]machines|--num[_-]nodes)[=: ] ?['\"]?(?:[2-9]|\d\d)"
)


def _master(match: re.Match[str]) -> Fact | None:
    """The main rank's address is the loopback, in a command for several hosts."""
    return AddressIsLocal(address=match["address"], certain=False) if _NODES.search(match.string) else None


SIGNATURES = (
    signature(
        r"(?:MASTER_ADDR|MASTER_IP|--master[_-]addr|--main[_-]process[_-]ip|--rdzv[_-]endpoint)[=: ] ?['\"]?"
        r"(?P<address>localhost|127\.\d+\.\d+\.\d+)\b",
        _master,
    ),
    # the call itself, as a traceback shows it
    signature(r"distributed\.initialize\([^\n]{0,300}?process_id ?= ?(?P<index>\d{1,5})", _started),
    signature(r"--(?:task[_-]?(?:index|id)|task|worker[_-]index)[= ](?P<index>\d{1,5})\b", _started),
    signature(r"--(?:process[_-](?:id|index)|machine[_-]rank|node[_-]rank|rank)[= ](?P<index>\d{1,5})\b", _started),
    signature(
        r"^\$? ?(?:\w{1,60}=\S{1,300} ){0,20}(?:RANK|NODE_RANK|SLURM_PROCID|JAX_PROCESS_ID|HOROVOD_RANK)=(?P<index>\d{1,5}) (?:\w{1,60}=\S{1,300} ){0,20}\S{0,300}python",
        _started,
    ),
)
