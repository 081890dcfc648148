# SPDX-License-Identifier: Apache-2.0
"""Who a process is: rank variables, arguments and world sizes, whichever program prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import DeviceShared, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.model.facts.environment import CudaMismatch
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
    signature(r"(?:environment variable )?\b(?P<name>[A-Z_]{4,40}) expected, but not set", RankVariableMissing),
    signature(r"DCP needs (?P<name>MASTER_(?:ADDR|PORT)) to use prefix store", RankVariableMissing),
    signature(
        r"(?P<name>SLURM_\w{2,40}) not found in environment|Not running inside a SLURM step", RankVariableMissing
    ),
    signature(r"\b(?P<name>LOCAL_RANK) is not in the environment", RankVariableMissing),
    signature(rf"KeyError: ['\"](?P<name>{_NAMES})['\"]", RankVariableMissing),
    signature(
        r"Error initializing torch\.distributed using (?:tcp|file|env):// rendezvous: (?P<name>[\w ]+?) (?:parameter )?missing",
        RankVariableMissing,
    ),
    signature(
        rf"(?i)(?:environment variable|env(?:ironment)? var(?:iable)?s?) [`'\"$]?(?P<name>{_NAMES})[`'\"]? "
        rf"(?:is |was |are )?"
        r"(?:not (?:set|found|defined|specified)|missing|required|undefined|must be set)",
        RankVariableMissing,
    ),
    signature(
        rf"[`'\"$](?P<name>{_NAMES})[`'\"]? (?:environment variable |env(?:ironment)? )?(?:is|was|are)(?: "
        rf"not|n't) (?:set|found|"
        r"defined|specified)",
        RankVariableMissing,
    ),
    signature(r"unrecognized arguments?: [^\n]{0,200}?[-–]{1,2}(?P<name>local[-_]rank)", RankVariableMissing),
    signature(
        r"(?:[Nn]o such option|unknown option|Unknown command line flag|Could not consume arg|Unrecognized option|unexpected "
        r"(?:keyword )?argument)[^\n]{0,20}?['\"-]{1,3}(?P<name>local[-_]rank)",
        RankVariableMissing,
    ),
    signature(r"(?:Override|Key) '(?P<name>local[-_]rank)[^'\n]*' (?:not found|is not in struct)", RankVariableMissing),
    signature(
        r"(?P<name>MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|LOCAL_RANK) (?:environment variable )?(?:is|was|has)(?: not|n't) "
        r"(?:been )?(?:set|specified|defined)",
        RankVariableMissing,
    ),
    signature(
        r"Could not find (?P<name>'(?:RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_\w+|OMPI_\w+)') in the \w+ environment",
        lambda match: RankVariableMissing(name=match["name"].strip("'")),
    ),
    # Numbers that disagree
    signature(
        r"Tensor list input to scatter/gather must match number of collective participants",
        WorldSizeConflict,
        what="tensors of a collective",
    ),
    signature(r"Invalid rank (?P<seen>\d+), rank should be in the interval \[0, ?(?P<last>-?\d+)\]", _interval),
    signature(
        r"(?:expected|Expected) (?:global )?world_?size \D{0,20}(?P<expected>\d+)[^\n]{0,40}(?:got|but|actual)\D{0,20}(?P<seen>\d+)",
        WorldSizeConflict,
        what="world size",
    ),
    signature(
        r"world[_ ]size ?\(?(?P<seen>\d+)\)?[^\n]{0,40}(?:is not|must be|not|should be)[^\n]{0,20}(?:divisible by|a multiple of|"
        r"equal to)[^\n\d]{0,60}(?P<expected>\d+)?",
        WorldSizeConflict,
        what="world size",
    ),
    signature(
        r"(?i)rank (?:\(?(?P<seen>\d+)\)? )?(?:must|should) be (?:less|smaller) than (?:the )?world[_ ]size",
        WorldSizeConflict,
        what="rank and world size",
    ),
    signature(
        r"(?:nproc_per_node|[Nn]umber of processes|num_processes)[^\n]{0,60}(?:greater|more|larger|exceeds?)[^\n]{0,40}(?:GPUs?|"
        r"devices?|cores?)[^\n]{0,40}",
        WorldSizeConflict,
        what="processes and devices",
    ),
    signature(
        r"[Tt]here are not enough slots available in the system to satisfy the (?P<expected>\d+) slots",
        WorldSizeConflict,
        what="MPI slots",
    ),
    signature(r"There are not enough slots available in the system", WorldSizeConflict, what="MPI slots"),
    signature(
        r"CUDA error: invalid device ordinal|cudaErrorInvalidDevice|cuda runtime error \(10\) ?: invalid device ordinal|CUDA_ERROR_INVALID_DEVICE",
        DeviceShared,
    ),
    signature(r"device >= 0 && device < num_gpus|Invalid device id", DeviceShared),
    # a program that takes its GPU from a list by its rank on the host
    signature(
        r"\b(?:gpus?|devices?|\w*(?:gpu|device)s?_?(?:list|ids)?)\[(?:\w+\.){0,3}(?:get_)?local_rank(?:\(\))?\][^\n]{0,80} "
        r"IndexError: list index out of range",
        DeviceShared,
    ),
    signature(r"device (?P<device>\d+) is not visible \((?:CUDA|HIP)_VISIBLE_DEVICES=", DeviceShared),
    signature(
        r"'?visible_device_list'? listed an invalid GPU id '?(?P<device>\d+)'? but visible device count is \d+",
        DeviceShared,
    ),
    signature(r"(?P<what>Requested \d+ GPUs?,? but only \d+[^\n]{0,40}available)", WorldSizeConflict),
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
    # an argument filled in from an unset variable: --rank $AZ_BATCHAI_TASK_INDEX
    signature(
        r"error: argument (?:-\w{1,3}/)?--(?P<name>(?:(?:global|local|node|machine|world)[-_]?)?rank|(?:world|cluster)[-_]?size"
        r"|num[-_](?:machines|processes|nodes|workers)|nnodes|nproc[-_]per[-_]node|process[-_]id|(?:task|worker|host)[-_](?:index|id)"
        r"|(?:master|main[-_]process)[-_](?:addr|ip|port)|dist[-_]url|init[-_]method)(?:/-{1,2}[\w-]{1,30}){0,2}: "
        r"(?:invalid \w{1,20} value: ['\"](?:\$[^'\"\n]{0,60}|None|null|\s*)['\"]|expected one argument)",
        RankVariableMissing,
    ),
    signature(
        r"invalid literal for int\(\) with base 10: ['\"](?P<name>\$\{?\w{2,40}\}?|\$\(\w[^'\"\n]{0,60}\))['\"]",
        RankVariableMissing,
    ),
    signature(
        r"Device (?P<device>-?\d+) is not recognized, available devices are integers from 0 to \d+", DeviceShared
    ),
    signature(r"ValueError: (?P<what>(?:Cuda|Xpu|npu|hpu) is not available)\.", CudaMismatch),
    signature(
        r"(?:requested|asked for|need|expected|specified) (?P<expected>\d+) (?:GPU|gpu|device)s?,? (?:but|while|and) (?:only )?(?:found |have |got |there (?:is|are) )?(?P<seen>\d+)\b",
        WorldSizeConflict,
        what="devices",
    ),
    signature(r"non-master node should provide (?P<name>master[_ ]address)", RankVariableMissing),
    signature(r"Cannot determine world size: (?P<name>WORLD_SIZE) environment variable not set", RankVariableMissing),
    signature(r"Could not find rank and world size in env", RankVariableMissing),
)
