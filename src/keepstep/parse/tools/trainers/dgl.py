# SPDX-License-Identifier: Apache-2.0
"""DGL and DGL-KE: the servers and clients of a graph that is spread over several machines."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import BindFailed, ConnectFailed, PeerLost, PortTaken
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.network.sockets import why

_NOT_HERE = ("errno=99", "errno 99", "cannot assign")


def _bind(match: re.Match[str]) -> Fact:
    """The reason it gives is often that of another call (``error: Success``). A failed bind means a port in use."""
    if any(words in match["why"].lower() for words in _NOT_HERE):
        return BindFailed(address=match["address"])
    return PortTaken(port=int(match["port"]))


SIGNATURES = (
    signature(r"Failed bind on (?P<address>\S{1,80}):(?P<port>\d{2,5}) ?, ?(?P<why>err[^\n]{0,80})", _bind),
    signature(
        r"Failed to (?:build conncetion|build connection|connect to receiver)(?: with)? ?\[?(?P<peer>[\w.:/\-]{3,80})?(?P<text>[^\n]{0,80})",
        lambda m: ConnectFailed(why=why(m["text"]), peer=m["peer"]),
    ),
    signature(
        r"Failed to send message to (?P<peer>\d+)\. Details: (?P<how>[^\n]{1,80})",
        lambda m: PeerLost(how=m["how"].strip(), peer=f"receiver {m['peer']} of DGL"),
    ),
)
