# SPDX-License-Identifier: Apache-2.0
"""gRPC's own messages, under TensorFlow, JAX, Ray and others: channels, names, ports, lost peers."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import BindFailed, ConnectFailed, PeerLost, PortTaken, Why
from keepstep.parse.scan.signature import signature

_ADDRESS = lazy_pattern(
    r"(?:ipv4:(?=\d)|ipv6:)(?P<peer>(?:[\d.]{7,15}|[\w%:\[\]]{2,60}?)(?::\d{2,5})?)(?=: |[\"',; }]|$)"
)
_LOGGED = lazy_pattern(r"^\s*(?:\d{4}-\d\d-\d\d[ T][\d:.,]+:? )?[IWE](?:\d{4})? ")

_AT_SHUTDOWN = lazy_pattern(
    r"preemption notice|This is only expected if one of the tasks is unhealthy|Proceeding with agent shutdown|"
    r"Failed to disconnect from coordination service"
)
"""What a service prints when its leader has ended first, also at the end of a good run."""


_ONCE_CONNECTED = lazy_pattern(
    r"WatchTasksAsync failed for task|CoordinationService/(?:Heartbeat|PollForError|WatchTasks|GetAliveTasks|ShutdownTask)\b"
)
"""Calls to a coordination service that only a registered task makes."""


def _connect(match: re.Match[str]) -> Fact:
    text = match.string[match.start() : match.start() + 1500]
    if _ONCE_CONNECTED.search(match.string):
        return PeerLost(how="the coordination leader does not answer", peer="the coordination leader", peer_rank=0)
    if "refused" in text:
        why = Why.REFUSED
    elif "No route to host" in text or "unreachable" in text.lower():
        why = Why.UNREACHABLE
    elif re.search(r"(?i)timed? ?out|timeout occurred|deadline", text):
        why = Why.TIMED_OUT
    else:
        why = Why.FAILED
    peer = _ADDRESS.search(text)
    return ConnectFailed(why=why, peer=peer["peer"] if peer else None, final=not _LOGGED.match(match.string))


def _listen(match: re.Match[str]) -> Fact:
    address = match.groupdict().get("address")
    if "Cannot assign requested address" in match.string or re.search(r"errno\"?:\s?99\b", match.string):
        return BindFailed(address=address)
    port = re.search(r":(\d{2,5})$", address or "")
    return PortTaken(address=address, port=int(port[1]) if port else None)


def _lost(match: re.Match[str]) -> Fact:
    peer = _ADDRESS.search(match.string)
    return PeerLost(how=match["how"], peer=peer["peer"] if peer else None, final=not _AT_SHUTDOWN.search(match.string))


SIGNATURES = (
    signature(r"failed to connect to all (?:addresses|subchannels)", _connect),
    signature(r"Failed to connect to remote host: (?:OS Error|[A-Z])", _connect),
    signature(
        r"failed to connect to '(?:ipv4|ipv6|dns|unix):[^'\n]{1,120}': (?:timeout occurred|socket error|[a-z])",
        _connect,
    ),
    signature(r"\"description\":\"Connect Failed\"", _connect),
    signature(r"Master init: Unavailable: OS Error", _connect),
    signature(r"UnavailableError'?>?[:,] +Connect Failed", _connect),
    signature(
        r"UnavailableError'?>?[:,] +(?P<how>Transport closed|GOAWAY received|Call dropped by load balancing policy|Connection reset by peer|Broken pipe)",
        _lost,
    ),
    signature(r"(?:UnavailableError'?>?[:,]|(?<!Master init: )Unavailable:) (?P<how>OS Error)", _lost),
    signature(r"(?:UnavailableError|Unavailable)[^\n]{0,80}\"description\":\"(?P<how>EOF)\"", _lost),
    signature(r"No address added out of total \d+ resolved(?: for '(?P<address>[^']+)')?", _listen),
    signature(r"Could not start gRPC server", _listen),
    signature(
        r"Failed to (?:bind to|add(?: a)?(?: secure| insecure)? port) (?:address )?(?P<address>[\w.\[\]:*]+:\d+)"
        r"[^\n]{0,40}(?:set `?GRPC_VERBOSITY|$)",
        _listen,
    ),
    signature(r"(?P<how>Socket closed)", _lost),
    signature(r"(?P<how>Endpoint read failed)", _lost),
    signature(r"\b(?P<how>Stream removed)\b", _lost),
    signature(r"(?P<how>recvmsg:\s?Connection reset by peer)", _lost),
    signature(r"(?P<how>keepalive watchdog timeout|keepalive ping timeout)", _lost),
)
