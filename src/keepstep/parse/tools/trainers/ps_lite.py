# SPDX-License-Identifier: Apache-2.0
"""ps-lite, the parameter server below MXNet's distributed stores and BytePS, and the checks of its ``dmlc`` core."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import RankVariableMissing
from keepstep.model.facts.network import ConnectFailed, PeerAwaited, Why
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.network.sockets import why

_ERRNO = {"110": Why.TIMED_OUT, "111": Why.REFUSED, "113": Why.UNREACHABLE, "101": Why.UNREACHABLE}


def _not_sent(match: re.Match[str]) -> Fact:
    return ConnectFailed(why=_ERRNO.get(match["errno"], Why.FAILED), peer=f"node {match['peer']} of ps-lite")


SIGNATURES = (
    signature(
        r"connect to tcp://(?P<peer>[\w.\-]{1,80}:\d{1,6}) failed: (?P<text>[^\n]{1,80})",
        lambda m: ConnectFailed(why=why(m["text"]), peer=m["peer"]),
    ),
    # the variables of its launcher
    signature(
        r"Check notnull: Environment::Get\(\)->find\(\"(?P<name>DMLC_\w{1,40})\"\)|env (?P<unset>DMLC_\w{1,40}) not set",
        lambda m: RankVariableMissing(name=m["name"] or m["unset"]),
    ),
    # its nodes: a process asks the scheduler, which is node 1, for a number
    signature(r"\? => 1\. Meta: [^\n]{0,120}cmd=ADD_NODE", lambda m: PeerAwaited(peer="the scheduler")),
    signature(r"failed to send message to node \[(?P<peer>\d{1,6})\] errno: (?P<errno>\d{1,3})", _not_sent),
)
