# SPDX-License-Identifier: Apache-2.0
"""NCCL: calls, ranks and devices that do not fit a communicator."""

from __future__ import annotations

from keepstep.model.facts.config import DeviceShared, WorldSizeConflict
from keepstep.model.facts.environment import CudaMismatch, InternalFault, UnsupportedCombination
from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.scan.signature import signature

_WARN = r"(?:NCCL WARN |^\s*)"


SIGNATURES = (
    signature(
        r"Invalid config \w{1,40} attribute value -2147483648\b",
        CudaMismatch,
        what="the loaded NCCL is older than the one the framework was built for",
    ),
    signature(
        r"NCCL operation nccl\w{3,30}\([^\n]{0,500}\) failed: invalid argument[^\n]{0,80}log entry \(may be unrelated\) ''",
        UnsupportedCombination,
        what="two copies of NCCL in one process (TensorFlow for GPUs beside JAX): one rejects the other's communicator",
    ),
    signature(
        r"(?:NCCL WARN |Error: )(?:Error: )?corrupted comm object detected",
        InternalFault,
        what="NCCL was given a communicator that is not, or no longer, valid",
    ),
    signature(
        _WARN + r"[Ii]nvalid device count (?:\((?P<seen>-?\d+)\) requested|requested ?: (?P<count>-?\d+))",
        lambda m: WorldSizeConflict(seen=m["seen"] or m["count"], what="devices of a communicator"),
    ),
    signature(
        _WARN
        + r"(?:[Ii]nvalid device (?P<seen>-?\d+) \((?:totalnDev|ndev|of)=?\s?(?P<expected>\d+)|rank (?P<rank>\d+) exceeds ndev=(?P<ndev>\d+))",
        lambda m: WorldSizeConflict(seen=m["seen"] or m["rank"], expected=m["expected"] or m["ndev"], what="a device"),
    ),
    signature(
        _WARN + r"\w{2,40} ?: invalid root (?P<seen>-?\d+) \(root should be in the 0\.\.(?P<expected>\d+) range\)",
        WorldSizeConflict,
        what="the root of a collective",
    ),
    signature(
        _WARN + r"improper usage of ncclCommInitRank: nId = (?P<seen>\d+), nranks=(?P<expected>\d+)",
        WorldSizeConflict,
        what="ids and ranks of a communicator",
    ),
    signature(
        _WARN
        + r"nLocals = (?P<seen>\d+) should be a divis[eo]r of the number of ranks in node \d+ = (?P<expected>\d+)",
        WorldSizeConflict,
        what="ranks of a node",
    ),
    signature(r"communicator has multiple ranks using the same NVML device", DeviceShared),
    signature(
        _WARN + r"Trying to (?:send|recv) to self without a matching (?:recv|send)",
        CollectiveMismatch,
        what="a send and a receive of the rank to itself",
    ),
    signature(
        _WARN + r"Elastic GIN: rank (?P<other_rank>\d+) [^\n]{0,80}all ranks must have identical segment",
        CollectiveMismatch,
        what="the memory that ranks registered",
    ),
    signature(
        _WARN + r"Data type supplied to user-created ncclRedOp_t does not match type given to reduction operation",
        CollectiveMismatch,
        what="the type of a reduction",
    ),
    signature(
        _WARN + r"(?P<what>Illegal to have some communicators in graph mode while others not"
        r"|Either none or all communicators in a ncclGroup\(\) can be CUDA graph captured|Blocking and nonblocking communicators are not allowed in the same group"
        r"|Streams given to a communicator within a NCCL group must either be all uncaptured"
        r"|NCCL does not support this CUDA version for CUDA graph feature|Too many async operations in progress, max is \d+"
        r"|Too many aggregated operations[^\n]{0,30} \(\d+ max\)|CUMEM(?: Host)? (?:is )?not supported prior to CUDA [\d.]+"
        r"|(?:Error ?: no|No) algorithm/protocol available|FP8 reduction support begins with sm\d+|Communicator does not support symmetric memory"
        r"|cudaArch \d+ dynamic smem \d+ exceeds device/fn maxSharedMem \d+"
        r"|Fusing NET devices from different NUMA domains is not supported|GIN is not supported[^\n]{0,60})",
        UnsupportedCombination,
    ),
)
