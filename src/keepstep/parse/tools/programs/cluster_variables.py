# SPDX-License-Identifier: Apache-2.0
"""Who a process is: rank variables, arguments and world sizes, whichever program prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_NAMES = (
    r"(?:LOCAL_RANK|RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|MASTER_ADDR|MASTER_PORT|SLURM_\w+|OMPI_COMM_WORLD_\w+|"
    r"PMI_\w+|MPI_LOCALRANKID|MV2_COMM_WORLD_\w+|TF_CONFIG|JOB_COMPLETION_INDEX|HOROVOD_\w+|TPU_WORKER_\w+|MEGASCALE_\w+|"
    r"XRT_\w+|JSM_\w+|COORDINATOR_ADDRESS|NUM_PROCESSES|PROCESS_ID|ETCD_\w+|RAY_ADDRESS)"
)


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _member(match: re.Match[str]) -> Fact:
    index, size = _number(match["index"]), _number(match["size"])
    return WorldSeen(size=size, index=index, rank=index)


def _world(match: re.Match[str]) -> Fact | None:
    """A size that a process prints of its own world; not the defaults of a printed configuration."""
    if re.search(r"Namespace\(|['\"]world_size['\"]|[Ee]rror|expected|Config", match.string):
        return None
    return WorldSeen(size=int(match["size"]))


def _interval(match: re.Match[str]) -> Fact:
    return WorldSizeConflict(
        what="a rank outside its world",
        seen=f"rank {match['seen']}",
        expected=f"{int(match['last']) + 1} ranks",
        rank=int(match["seen"]),
    )


def _read_of_nothing(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A line of a program that reads a variable, and what Python says below it where there is none."""
    for _ in range(LINES_TO_AN_ERROR):
        line = next(lines, "")
        if re.match(r"\s*(?:TypeError|AttributeError|ValueError): .{0,120}None(?:Type)?\b", line):
            yield RankVariableMissing(name=match["name"])
        if line.strip(" ^~"):
            return


def _looked_up_in_vain(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A line that looks a variable up, and below it the frame in which Python does not find it."""
    for _ in range(LINES_TO_AN_ERROR):
        line = next(lines, "")
        if re.match(r'\s*File "[^"]{0,300}\bos\.py", line \d+, in __getitem__', line):
            yield RankVariableMissing(name=match["name"])
        if line.strip(" ^~"):
            return


LINES_TO_AN_ERROR = 2
"""Newer Pythons underline the place."""

BLOCKS = (
    block(rf"os\.(?:environ\.get|getenv)\(['\"](?P<name>{_NAMES})['\"](?:, ?None)?\)", _read_of_nothing),
    block(rf"os\.environ\[['\"](?P<name>{_NAMES})['\"]\]", _looked_up_in_vain),
)

SIGNATURES = (
    # A variable or argument that is missing
    signature(
        r"Could not find (?P<name>'(?:RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_\w+|OMPI_\w+)') in the \w+ environment",
        lambda match: RankVariableMissing(name=match["name"].strip("'")),
    ),
    # Numbers that disagree
    signature(r"Invalid rank (?P<seen>\d+), rank should be in the interval \[0, ?(?P<last>-?\d+)\]", _interval),
    # Who is in the world
    signature(r"GLOBAL_RANK: (?P<index>\d+), MEMBER: \d+/(?P<size>\d+)", _member),
    signature(
        r"[Ii]nitializ(?:ed|ing) (?:distributed|process group)[^\n]{0,40}(?:global )?rank[ :=]+(?P<index>\d+)[^\n]{0,30}?world[_ ]size[ :=]+"
        r"(?P<size>\d+)",
        _member,
    ),
    signature(r"(?<![\w'\"(])world[_ ]size ?(?:is|[:=])? ?(?P<size>\d+)\b(?! ?(?:is not|must|should|does))", _world),
    signature(r"\| distributed init \(rank (?P<index>\d+)(?:, world (?P<size>\d+))?\)", _member),
    signature(r"distributed init \(rank (?P<index>\d+)\): (?P<size>\d+)?", _member),
)
