# SPDX-License-Identifier: Apache-2.0
"""gloo: the CPU collectives of PyTorch, Horovod and JAX.

Its errors carry ``[.../gloo/transport/tcp/pair.cc:598]``.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import AddressMisled, ConnectFailed, PeerLost
from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.network.sockets import why

_PEER = r"\[?(?P<peer>(?<=\[)[\w.:%\-]+|(?=[\w.:%]{0,60}\d)[\w%]*[.:][\w.:%]+)\]?(?::\d+)?"
"""An address, or any name in brackets: the next word of a sentence is neither."""


def _mesh(match: re.Match[str]) -> Fact:
    text = match["text"]
    if "no error" in text:
        return AddressMisled(how="gloo's connections between all ranks failed, after the store had joined them")
    remote = re.search(r"remote=(?P<peer>\[?[\w.:%]+\]?(?::\d+)?)", text)
    remote = remote or re.search(r"\bconnect (?P<peer>\[[\w.:%]+\](?::\d+)?): ", match[0])
    return ConnectFailed(why=why(text), peer=remote["peer"] if remote else None, given_out=True)


def _peer(match: re.Match[str]) -> Fact:
    return PeerLost(how=match["how"].lower(), peer=match["peer"])


SIGNATURES = (
    signature(r"(?P<how>Connection closed by peer|Socket unexpectedly closed|Socket closed) " + _PEER, _peer),
    signature(r"(?:Read|Write) error " + _PEER + r": (?P<how>[A-Z][\w ]+)", _peer),
    # a buffer that the other side has not filled, or taken, in the time that the group allows
    signature(r"Read timeout " + _PEER, lambda m: CollectiveTimeout(op="recv")),
    signature(r"Write timeout " + _PEER, lambda m: CollectiveTimeout(op="send")),
    signature(r"Connect timeout " + _PEER, lambda m: PeerLost(how="timed out", peer=m["peer"])),
    signature(
        r"gloo/transport/[^\n]{0,80}\] (?P<how>writev?|readv?|send|recv) (?:"
        + _PEER
        + r": )?(?P<text>Connection reset by peer|Broken pipe|Connection timed out)",
        lambda m: PeerLost(how=m["text"].lower(), peer=m["peer"]),
    ),
    signature(r"Gloo connectFullMesh failed with (?P<text>[^\n]{0,400})", _mesh),
    signature(r"gloo[^\n]{0,120}(?P<text>timed out connecting: [^\n]{0,200}|Connect timeout [^\n]{0,100})", _mesh),
    signature(
        r"gloo[^\n]{0,120}connect[^\n]{0,60}: (?P<text>(?:Connection refused|No route to host|Network is unreachable)[^\n]{0,80})",
        _mesh,
    ),
)
