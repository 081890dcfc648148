# SPDX-License-Identifier: Apache-2.0
"""PyTorch's remote calls (torch.distributed.rpc): TensorPipe, its agents, and the limits of calls."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import ConnectFailed, PeerLost, Why
from keepstep.model.facts.resource import LimitReached
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.network.sockets import why


def _broken(text: str, peer: str | None, *, final: bool) -> Fact | None:
    """What a broken pipe of the RPC agents means, by the system's message."""
    if "emporarily unavailable" in text:
        return LimitReached(limit="connections waiting to be accepted")
    kind = why(text)
    if kind is not Why.FAILED:
        return ConnectFailed(why=kind, peer=peer, final=final)
    if re.search(r"(?i)reset|eof|end of file|broken pipe|closed|EPIPE", text):
        return PeerLost(how=f"RPC: {text.strip()[:60]}", peer=peer, final=final)
    return None


def _agent(match: re.Match[str]) -> Fact | None:
    """An agent's complaint; the end of a healthy run prints the same and says so."""
    if "expected to happen during shutdown" in match.string:
        return None
    return _broken(match["text"], match["peer"], final=False)


def _pipe(match: re.Match[str]) -> Fact | None:
    return _broken(match["text"], None, final=True)


SIGNATURES = (
    signature(
        r"RPC agent for (?P<here>\S+) encountered error when (?:reading|sending|writing|accepting|connecting)[^:\n]{0,80}?"
        r"(?:(?:from|to) (?P<peer>[^\s:]+))?: (?P<text>[^\n]{1,160})",
        _agent,
    ),
    signature(r"Error: (?P<text>[^\n]{1,120}?) \(this error originated at tensorpipe", _pipe),
    signature(
        r"Error: (?P<text>E(?:CONNREFUSED|CONNRESET|TIMEDOUT|HOSTUNREACH|NETUNREACH|PIPE|OF): [a-z][\w ]+)", _pipe
    ),
)
