# SPDX-License-Identifier: Apache-2.0
"""torch_xla: its spawn, its mesh service (XRT) and its PJRT client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import RankVariableMissing, WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.model.facts.environment import UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import PeerLost, RendezvousTimeout
from keepstep.model.facts.platform import TpuInitFailed
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.sync import CollectiveTimeout, ForkOrThread
from keepstep.model.facts.training import CheckpointUnreadable
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_AT_START = lazy_pattern(r"init|mesh|start|setup", re.I)


def _rendezvous(match: re.Match[str]) -> Fact:
    """Ranks meet under a name: at the start a rendezvous, later a barrier."""
    where = match["where"]
    return RendezvousTimeout(where=where) if _AT_START.search(where) else CollectiveTimeout(op=f"rendezvous {where}")


def _as_many_as_devices(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """One process is started per device of the host: none, where no device was found."""
    for line in islice(lines, LINES_TO_AN_ERROR):
        if line.lstrip().startswith("ValueError: max_workers must be greater than 0"):
            yield TpuInitFailed(what="no device was found on this host to start a process for")
            return


LINES_TO_AN_ERROR = 10

BLOCKS = (block(r'File "[^"]{0,300}torch_xla/\S{1,60}\.py", line \d+, in run_multiprocess', _as_many_as_devices),)

SIGNATURES = (
    signature(
        r"Exception in device=(?:TPU|xla|XLA|CPU|GPU):(?P<rank>\d+)", ProcessExited, reporter="torch_xla", code=1
    ),
    signature(
        r"Failed to meet rendezvous '(?P<where>[^']{1,80})': (?!Socket closed|Connection reset|failed to connect)",
        _rendezvous,
    ),
    signature(r"XrtComputationClient::(?P<what>InitializeAndFetchTopology|InitializeDevices)\(", TpuInitFailed),
    signature(r"Check failed: (?P<what>default_device_target != options_\.global_device_map\.end\(\))", TpuInitFailed),
    signature(
        r"Failed to meet rendezvous '[^']{1,80}': (?P<how>Socket closed|Connection reset by peer|failed to connect to all addresses)",
        PeerLost,
    ),
    # the mesh master is a server within process 0
    signature(
        r"Check failed: impl_->channel->WaitForConnected\(",
        PeerLost,
        how="process 0, which serves the mesh, did not answer",
    ),
    signature(r"Failed to retrieve mesh configuration: (?P<how>[^\n]{0,80})", PeerLost),
    signature(
        r"(?P<name>XRT_TPU_CONFIG|XRT_WORKERS|XRT_DEVICE_MAP|PJRT_DEVICE)[^\n]{0,20}(?:is not set|must be set|not configured|not found)",
        RankVariableMissing,
    ),
    signature(r"Missing XLA configuration", RankVariableMissing, name="XRT_TPU_CONFIG"),
    signature(
        r"Cannot replicate if number of devices \((?P<seen>\d+)\) is different from (?P<expected>\d+)",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"Unsupported nprocs \((?P<expected>\d+)\)\. Please use nprocs=1 or None", WorldSizeConflict, what="processes"
    ),
    signature(
        r"LOCAL_WORLD_SIZE \(torchrun\) or PJRT_LOCAL_PROCESS_COUNT \(xmp\.spawn\) value of (?P<expected>\d+) is not equal to count (?P<seen>\d+)",
        WorldSizeConflict,
        what="cores",
    ),
    signature(r"\$PJRT_DEVICE is not set", RankVariableMissing, name="PJRT_DEVICE"),
    signature(
        r"(?P<what>Runtime is already initialized\. Do not use the XLA device before calling xmp\.spawn)", ForkOrThread
    ),
    signature(r"tensor_util\.cpp:\d+ : Type not supported: (?P<left>\w+)", DtypeMismatch, right="what XLA can hold"),
    signature(
        r"(?:torch_xla|XLA)[^\n]{0,80}(?:Type not supported|[Uu]nsupported (?:dtype|XLA type|type)): ?(?P<left>\w+)",
        DtypeMismatch,
        right="what XLA can hold",
    ),
    signature(r"(?P<what>foreach=True is not supported with XLA)", UnsupportedCombination),
    signature(
        r"(?P<what>launch function does not support SPMD|XLA currently does not support use_reentrant==False|"
        r"IP discovery not supported for device|with list of tensors input, pin_layout=True is not yet supported|"
        r"For xm\.all_gather_bucketized, pin_layout=True is not yet supported)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>module 'torch_xla(?:\.[\w.]+)?' has no attribute '\w+'|cannot import name '\w+' from 'torch_xla[\w.]*')",
        lambda match: VersionConflict(component="torch_xla"),
    ),
    signature(
        r"PJRT_LOCAL_PROCESS_RANK \(xmp\.spawn\) value of (?P<seen>\d+) is higher than count (?P<expected>\d+)",
        WorldSizeConflict,
        what="local ranks and cores",
    ),
    signature(
        r"Number of device IDs \((?P<seen>\d+)\) must match (?:the global number of devices|mesh size) \((?P<expected>\d+)\)",
        WorldSizeConflict,
        what="devices of a mesh",
    ),
    signature(
        r"Given (?:ranks is out of range|(?:horizontal|vertical) slice doesn't have a correct (?:start|step)): World size: (?P<seen>\d+)",
        WorldSizeConflict,
        what="ranks of a mesh",
    ),
    signature(
        r"Error: (?P<why>Expecting rank \d+ for \S{1,200} but it is ranked \d+ \(out of \d+ files\)|Cannot restore from untracked step \d+)",
        CheckpointUnreadable,
    ),
    signature(
        r"mm\(\): cannot matrix-multiply tensors|cannot apply batch matrix-multiplication to `",
        ShapeMismatch,
        op="matmul",
    ),
)
