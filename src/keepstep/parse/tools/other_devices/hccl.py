# SPDX-License-Identifier: Apache-2.0
"""Ascend's collectives (HCCL) and runtime (CANN), by the codes that their messages begin with.

``EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out.``; from CANN 8.3 on with a name before the code:
``Communication_Error_Get_Socket(EI0006): ...``. torch_npu adds the number of the runtime's error.
"""

from __future__ import annotations

from typing import Any

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, DeviceShared
from keepstep.model.facts.environment import CudaMismatch, LibraryMissing, VersionConflict
from keepstep.model.facts.network import ConnectFailed, PortTaken, RendezvousTimeout, Why
from keepstep.model.facts.platform import DeviceFault, NicFault
from keepstep.model.facts.process import TaskNamed
from keepstep.model.facts.resource import Contention, DeviceMemoryExhausted
from keepstep.model.facts.sync import CollectiveMismatch, CollectiveTimeout, RanksMissing
from keepstep.parse.scan.signature import Signature, signature


def _code(code: str, fact: type[Fact], words: str = r"[^\n]{0,160}", **known: Any) -> Signature:
    """A row for the messages of one code, in both forms of it."""
    return signature(rf"\b{code}\)?: {words}", fact, **known)


SIGNATURES = (
    _code("EI0001", ClusterSpecInvalid, r"(?P<detail>[^\n]{0,120})"),
    _code("EI0002", CollectiveTimeout, op="HCCL"),
    _code("EI0003", CollectiveMismatch, what="parameters of a collective"),
    _code("EI0004", ClusterSpecInvalid, r"(?P<detail>[^\n]{0,120})"),
    _code("EI0005", CollectiveMismatch, what="parameters of a collective"),
    _code("EI0006", ConnectFailed, why=Why.TIMED_OUT),
    _code("EI0007", DeviceMemoryExhausted),
    _code("EI0008", VersionConflict, component="HCCL"),
    _code("EI0011", DeviceMemoryExhausted),
    _code("EI0015", RendezvousTimeout, where="HCCL's root"),
    signature(r"\bEI00(?:19|20)\)?: [^\n]{0,160}?(?:port (?P<port>\d+) have already been bound|$)", PortTaken),
    # what its own log says below the codes
    signature(r"listen on ip\[[^\]\n]{1,80}\] and specific port\[(?P<port>\d+)\] fail", PortTaken),
    signature(r"host nic listen start failed, port\[(?P<port>\d+)\]", PortTaken),
    signature(r"Failed to connect agent\[(?P<missing>[\d, ]{1,400})\]", RanksMissing),
    signature(r"topo exchange (?:server|agent) get socket timeout!", RendezvousTimeout, where="HCCL's root"),
    signature(
        r"TopoExchangeAgent: connect server\[(?P<peer>[\w.:%]{3,60}) : \d+\] failed", ConnectFailed, why=Why.TIMED_OUT
    ),
    signature(r"wait socket establish timeout, role\[\d", ConnectFailed, why=Why.TIMED_OUT),
    signature(r"CMD information \S{1,60} check fail", CollectiveMismatch, what="parameters of a collective"),
    _code("EJ0002", NicFault, what="the NPU's network port is down"),
    _code("EJ0004", ClusterSpecInvalid, r"(?P<detail>[^\n]{0,120})"),
    _code("EL0003", DeviceShared),
    _code("EL0004", DeviceMemoryExhausted),
    signature(
        r"EJ0001\)?: [^\n]{0,60}?Failed to initialize the HCCP process",
        Contention,
        what="another process still holds this device's communication service",
    ),
    _code("EJ0003", PortTaken, r"[^\n]{0,60}?Failed to bind the IP port"),
    signature(
        r"EE1002\)?: [^\n]{0,60}?[Ss]tream synchronize timeout|reason=\[(?:stream sync|task|event sync) timeout\]",
        CollectiveTimeout,
        op="HCCL",
    ),
    signature(
        r"(?:E[EZL]\d{4}\)?: [^\n]{0,200}|retCode=\w{3,12}, \[)(?P<what>aicore exception|HBM MULTI BIT ECC|uncorrectable)",
        lambda m: DeviceFault(what=m["what"], hardware="aicore" not in m["what"]),
    ),
    # the runtime's numbers, as torch_npu prints them
    signature(r"(?:NPU|ACL)(?![^\n]{0,60}MallocHost)[^\n]{0,120}error code is 2070(?:01|18)\b", DeviceMemoryExhausted),
    signature(r"(?:NPU|ACL)[^\n]{0,120}error code is (?:507046|107020)\b", CollectiveTimeout, op="HCCL"),
    signature(
        r"(?:NPU|ACL)[^\n]{0,120}error code is 5070(?:11|15|18|35)\b",
        DeviceFault,
        what="a kernel of the NPU failed",
        hardware=False,
    ),
    signature(r"(?:NPU|ACL)[^\n]{0,120}error code is 5070(?:10|54)\b", DeviceFault, what="the NPU was lost"),
    signature(r"(?:NPU|ACL)[^\n]{0,120}error code is 107001\b", DeviceShared),
    signature(
        r"(?:NPU|ACL)[^\n]{0,120}error code is (?:207004|207006|507008)\b",
        CudaMismatch,
        what="the runtime finds no NPU that it may use, or one of another kind",
    ),
    signature(
        r"(?:NPU|ACL)[^\n]{0,120}error code is 5070(?:14|16|17|34)\b",
        DeviceFault,
        what="a kernel of the NPU failed or took too long",
        hardware=False,
    ),
    signature(
        r"(?:NPU|ACL)[^\n]{0,120}error code is 507(?:899|901)\b",
        DeviceFault,
        what="the NPU's driver failed or lost the device",
    ),
    signature(
        r"ACL stream synchronize failed, error code:(?P<code>\d{6})",
        lambda m: (
            CollectiveTimeout(op="HCCL")
            if m["code"] in ("507046", "107020")
            else DeviceFault(
                what="a kernel of the NPU failed", hardware=m["code"] in ("507010", "507054", "507899", "507901")
            )
        ),
    ),
    # a torch_npu that asks the installed CANN for what it does not have yet
    signature(
        r"Failed to find function (?P<name>(?:acl|Acl|[Hh]ccl|dcmi|aclrt)\w{3,80})",
        lambda m: CudaMismatch(what=f"the installed CANN has no {m['name']}: it is older than torch_npu needs"),
    ),
    # whose error it is: ERR02200 DIST call hccl api failed, (PID:1, Device:3, RankID:3)
    signature(r"\(PID:\d+, Device:-?\d+, RankID:(?P<rank>\d+)\)", TaskNamed),
    # a part of CANN that the environment does not have
    signature(
        r"EC0010\)?: [^\n]{0,60}?Failed to import Python module \[(?:ModuleNotFoundError: No module named ')?(?P<name>[^\]\n']{1,120})",
        LibraryMissing,
    ),
    signature(r"Call rtMalloc fail, purpose: [^\n]{0,40}size:(?P<requested>\d+)", DeviceMemoryExhausted),
)
