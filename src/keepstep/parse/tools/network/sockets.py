# SPDX-License-Identifier: Apache-2.0
"""The operating system's own texts for network errors, whichever program prints them.

Python's ``OSError``, C libraries, resolvers and proxies all end in the same ``strerror`` texts.
What a library says around them (NCCL, gloo, c10d, gRPC) is in that library's own table.
"""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import BindFailed, ConnectFailed, NameUnresolved, PortTaken, Why
from keepstep.parse.scan.signature import signature

_WORDS = (
    (Why.REFUSED, ("refused",)),
    (Why.UNREACHABLE, ("no route to host", "unreachable", "network is down", "host is down")),
    (Why.TIMED_OUT, ("timed out", "timeout")),
)


def why(text: str) -> Why:
    """How a connection attempt failed, by the ``strerror`` text."""
    folded = text.lower()
    for kind, words in _WORDS:
        if any(word in folded for word in words):
            return kind
    return Why.FAILED


_GOES_ON = lazy_pattern(
    r"ras/|client_support\.cc|trying (?:another|the next|next|a different)|next available|will (?:re)?try|"
    r"retry(?:ing)? (?:in|on|with)|ignoring the error|tensorboard|jupyter|dashboard|debugpy|prometheus",
    re.I,
)
_DEBUGGING = lazy_pattern(r"(?:^|[\s\[:|])(?:DEBUG|TRACE)(?=[\s\]:|])")
"""By its own level such a line is about something that was tried: nothing failed for good."""
_PORT = (
    lazy_pattern(r"(?:\]|\d\.\d+|\*|localhost):(?P<port>\d{2,5})\b"),
    lazy_pattern(r"port[:=]? ?(?P<port>\d{2,5})\b", re.I),
    lazy_pattern(r"\('[\w.\-:]*', (?P<port>\d{2,5})"),
    lazy_pattern(r"[\w\-]:(?P<port>\d{3,5})\b"),
    lazy_pattern(r"<(?P<port>\d{3,5})>"),
)
_ADDRESS = lazy_pattern(r"(?P<address>\[[0-9a-fA-F:.%\w]*\]|\d{1,3}(?:\.\d{1,3}){3}|localhost):\d{2,5}\b")
_NOT_PORTS = lazy_pattern(r"(?<![\w/.\-])[\w/.\-]+\.(?:cpp|cc|h|hpp|c|py|go|java|rs):\d+|\b\d{1,2}:\d\d:\d\d\S*")


def _taken(match: re.Match[str]) -> Fact | None:
    text = match.string
    if _GOES_ON.search(text) or _DEBUGGING.search(text):
        return None
    plain = _NOT_PORTS.sub("", text)
    port = next((int(found["port"]) for each in _PORT if (found := each.search(plain))), None)
    where = _ADDRESS.search(plain)
    return PortTaken(port=port, address=where["address"] if where else None)


_HOSTS = (
    lazy_pattern(r"network addresses of \((?P<host>[^\s,()]+), ?\d+\)"),
    lazy_pattern(r"[Cc]ould not resolve host(?:name)?:? \"?'?(?P<host>[\w.\-]+)"),
    lazy_pattern(r"lookup (?P<host>[\w.\-]+)(?: on|:)"),
    lazy_pattern(r"[Ff]ailed to resolve '?\"?(?P<host>[\w.\-]+)"),
    lazy_pattern(r"host='(?P<host>[\w.\-]+)'"),
    lazy_pattern(r"UnknownHostException: (?P<host>[\w.\-]+)"),
    lazy_pattern(r"can't find (?P<host>[\w.\-]+):"),
    lazy_pattern(r"unable to resolve (?:host )?(?:address )?[\"'‘](?P<host>[\w.\-]+)"),
    lazy_pattern(r"(?:ssh|ping|nc|getent|mpirun|horovodrun): (?P<host>[\w.\-]+): "),
    lazy_pattern(
        r"(?:host|node|address|peer|server|endpoint|hostname)(?:[=:] ?|[ =:]?[\"'])(?P<host>[\w\-]+(?:\.[\w\-]+)*)[\"']?[ ,:]",
        re.I,
    ),
)


def _unresolved(match: re.Match[str]) -> Fact | None:
    text = match.string
    if "sudo:" in text or _HUB.search(text) or _DEBUGGING.search(text):
        return None
    host = next((found["host"] for each in _HOSTS if (found := each.search(text))), None)
    return NameUnresolved(host=host)


_HUB = lazy_pattern(r"wandb|huggingface\.co|hf\.co|comet\.(?:com|ml)|neptune|sentry|telemetry|githubusercontent")


def _refused(match: re.Match[str]) -> Fact | None:
    if _HUB.search(match.string) or _DEBUGGING.search(match.string):
        return None
    peer = re.search(
        r"(?:connect(?:ing|ion)? to|host|address|peer)[ =:'\"(\[]{1,4}(?P<peer>[\w.\-]+(?::\d+|', ?\d+))", match.string
    )
    return ConnectFailed(why=why(match.group(0)), peer=peer["peer"] if peer else None)


def _not_here(match: re.Match[str]) -> Fact | None:
    """A client that tries ``::1`` first prints the same, harmlessly."""
    text = match.string
    if "client socket" in text or "connect" in text.lower() or _DEBUGGING.search(text):
        return None
    where = re.search(r"(\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:]+\])", text)
    return BindFailed(address=where[1] if where else None)


SIGNATURES = (
    signature(r"(?i)address already in use", _taken),
    signature(r"EADDRINUSE(?!.{0,80}already in use)", _taken),
    signature(r"error while attempting to bind on address [^\n]{0,200}", _taken),
    signature(r"Only one usage of each socket address", _taken),
    signature(r"errno: 98\b(?!.{0,10}Address already)", _taken),
    signature(r"Name or service not known", _unresolved),
    signature(r"Temporary failure in name resolution", _unresolved),
    signature(r"nodename nor servname provided", _unresolved),
    signature(r"No address associated with hostname", _unresolved),
    signature(r"Name does not resolve", _unresolved),
    signature(r"[Cc]ould not resolve host(?!name to a)(?!.{0,200}Name or service)", _unresolved),
    signature(r"dial tcp: lookup [\w.\-]+[^\n]{0,80}: (?:no such host|server misbehaving|i/o timeout)", _unresolved),
    signature(r"UnknownHostException", _unresolved),
    signature(r"getaddrinfo failed(?!.{0,200}Name or service)", _unresolved),
    signature(r"Check failed: \(?getaddrinfo\([^\n]{0,200}\) ?== ?\(?0", _unresolved),
    signature(
        r"gai error: -\d+(?!.{0,60}(?:Name or service not known|Temporary failure|No address assoc))", _unresolved
    ),
    signature(r"server can't find [\w.\-]+: (?:NXDOMAIN|SERVFAIL)", _unresolved),
    signature(
        r"(?:ConnectionRefusedError|ConnectError|OSError|socket\.error): \[Errno 111\] (?:Connection refused|Connect call failed)[^\n]{0,120}",
        _refused,
    ),
    signature(
        r"(?:TimeoutError|OSError|socket\.error): \[Errno 110\] (?:Connection timed out|Connect call failed)", _refused
    ),
    signature(r"\[Errno 113\] (?:No route to host|Connect call failed)", _refused),
    signature(r"\[Errno 101\] Network is unreachable", _refused),
    signature(
        r"connect\(\) to (?P<peer>[\w.:\-]+) failed: (?P<why>Connection refused|No route to host|Connection timed out"
        r"|Network is unreachable|Operation timed out)",
        lambda m: ConnectFailed(why=why(m["why"]), peer=m["peer"], given_out="btl_" in m.string),
    ),
    signature(
        r"ssh: connect to host (?P<peer>\S+) port \d+: (?P<why>Connection refused|No route to host|"
        r"Connection timed out|Network is unreachable|Operation timed out)",
        lambda m: ConnectFailed(why=why(m["why"]), peer=m["peer"]),
    ),
    signature(r"Cannot assign requested address|EADDRNOTAVAIL", _not_here),
)
