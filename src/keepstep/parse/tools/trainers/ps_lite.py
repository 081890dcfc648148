# SPDX-License-Identifier: Apache-2.0
"""ps-lite, the parameter server below MXNet's distributed stores and BytePS, and the checks of its ``dmlc`` core."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing
from keepstep.model.facts.network import ConnectFailed, InterfaceMissing, PeerAwaited, PortTaken, RdmaTrouble, Why
from keepstep.model.facts.process import NativeAbort, ProcessExited
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.network.sockets import why

_ERRNO = {"110": Why.TIMED_OUT, "111": Why.REFUSED, "113": Why.UNREACHABLE, "101": Why.UNREACHABLE}


def _not_sent(match: re.Match[str]) -> Fact:
    return ConnectFailed(why=_ERRNO.get(match["errno"], Why.FAILED), peer=f"node {match['peer']} of ps-lite")


SIGNATURES = (
    # a check that failed, printed before it is thrown
    signature(
        r"dmlc/logging\.h:\d+: \[[\d:]{8}\] (?P<where>\S{1,160}:\d+): (?P<what>Check failed: (?!\(?my_node_\.port|ready_ call Start"
        r"|!ip\.empty|!interface\.empty)[^\n]{1,300})",
        NativeAbort,
    ),
    # a store created by a process whose role must not have one
    signature(
        r"Check failed: ready_(?: \(\S{1,20} vs\. \S{1,20}\) :)? ?call Start\(\) first",
        RankVariableMissing,
        name="DMLC_ROLE",
    ),
    signature(
        r"Check failed: !(?:ip|interface)\.empty\(\)[^\n]{0,20} failed to get (?:ip|the interface)", InterfaceMissing
    ),
    signature(r"(?P<detail>Unsupported van type: \S{1,60})", ClusterSpecInvalid),
    signature(
        r"connect to tcp://(?P<peer>[\w.\-]{1,80}:\d{1,6}) failed: (?P<text>[^\n]{1,80})",
        lambda m: ConnectFailed(why=why(m["text"]), peer=m["peer"]),
    ),
    signature(
        r"(?P<what>Create RDMA event channel failed|ibv_context\* empty|Failed to (?:allocate protection domain|create completion queue"
        r"|request CQ notification))",
        RdmaTrouble,
    ),
    signature(r"Check failed: \(?my_node_\.port\)? != \(?-1\)?[^\n]{0,30}bind failed", PortTaken),
    # its launchers start each process with these variables, and print the command of one that failed
    signature(
        r"DMLC_WORKER_ID=(?P<rank>\d{1,5})\b(?=([^\n]{0,2000}?DMLC_ROLE=worker\b))\2[^\n]{0,2000}returned non-zero exit status (?P<code>\d{1,3})\b",
        ProcessExited,
        reporter="the dmlc tracker",
    ),
    # the variables of its launcher
    signature(
        r"Check notnull: Environment::Get\(\)->find\(\"(?P<name>DMLC_\w{1,40})\"\)|env (?P<unset>DMLC_\w{1,40}) not set",
        lambda m: RankVariableMissing(name=m["name"] or m["unset"]),
    ),
    signature(
        r"(?P<name>(?:BYTEPS_SERVER_MXNET_PATH|DMLC_\w{1,40}|BYTEPS_LOCAL_SIZE)) env not set", RankVariableMissing
    ),
    # its nodes: a process asks the scheduler, which is node 1, for a number
    signature(r"\? => 1\. Meta: [^\n]{0,120}cmd=ADD_NODE", lambda m: PeerAwaited(peer="the scheduler")),
    signature(r"failed to send message to node \[(?P<peer>\d{1,6})\] errno: (?P<errno>\d{1,3})", _not_sent),
)
