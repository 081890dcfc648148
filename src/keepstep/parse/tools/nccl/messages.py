# SPDX-License-Identifier: Apache-2.0
"""NCCL (and RCCL) of versions 2.2 to 2.30: its warnings, and the errors it returns.

``host:pid:tid [dev] file:line NCCL WARN ...``
PyTorch and JAX print the last warning again under ``Last error:``; that gives the same facts.
InfiniBand and EFA wordings are in ``network/rdma``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.environment import VersionConflict
from keepstep.model.facts.network import CommunicationFailed, ConnectFailed, InterfaceUsed, PeerLost, TransportUsed
from keepstep.model.facts.platform import PeerAccessFault
from keepstep.model.facts.resource import HostAllocationFailed, LimitReached, SharedMemoryExhausted
from keepstep.model.facts.sync import CollectiveMismatch, CommMember, RanksMissing
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import Signature, signature
from keepstep.parse.tools.network.sockets import why

_ADDR = r"(?P<peer>\[?[\w.:%\-]+\]?<\d+>|(?=[\w.:%\[\]]{0,60}\d)\[?[\w%]*[.:][\w.:%]+\]?)"
"""``node2<40108>``, or an address: the next word of a sentence is neither."""
_INTERFACE = lazy_pattern(
    r"(?P<name>[a-zA-Z][\w.@\-]{0,30}):(?P<address>\d{1,3}(?:\.\d{1,3}){3}|(?=[0-9a-fA-F]{0,40}:)[0-9a-fA-F:]{2,40})(?:%[\w.@\-]{1,30})?<\d{1,9}>"
)


def _retry(match: re.Match[str]) -> Fact:
    """NCCL retries; it gives up at the last try it counts."""
    tried, of = match["tried"], match["of"]
    return ConnectFailed(why=why(match["text"]), peer=match["peer"], final=bool(tried and tried == of))


def _connect(match: re.Match[str]) -> Fact:
    return ConnectFailed(why=why(match["text"]), peer=match["peer"])


def _interfaces(match: re.Match[str]) -> Fact | None:
    found = list(_INTERFACE.finditer(match["list"]))
    if not found:
        return None
    return InterfaceUsed(name=",".join(f["name"] for f in found), address=",".join(f["address"] for f in found))


def _version(code: str) -> str:
    """22003 -> 2.20.3, 2708 -> 2.7.8."""
    if whole(code) is None:
        return code
    number = int(code)
    return (
        f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        if number >= 10000
        else f"{number // 1000}.{number // 100 % 10}.{number % 100}"
    )


def _versions(match: re.Match[str]) -> Fact:
    return VersionConflict(
        component="NCCL", here=_version(match["here"]), there=_version(match["there"]), rank=int(match["rank"])
    )


def _shm(match: re.Match[str]) -> Fact | None:
    found = match.groupdict()
    if "Too many open files" in match.string:
        return LimitReached(limit="open files")
    return SharedMemoryExhausted(path=found.get("path"), size=found.get("size"))


def _nvls(match: re.Match[str]) -> Fact:
    return PeerAccessFault(
        what="NVLink SHARP (NVLS) multicast memory could not be bound", fatal="Proceeding without" not in match.string
    )


def _peer_access(match: re.Match[str]) -> Fact:
    return PeerAccessFault(what=match["what"].strip(), fatal="NCCL INFO" not in match.string)


_LAUNCHED = lazy_pattern(r"^\s*(?P<ranks>\d+) ranks have launched up to operation (?P<count>\d+)")
_STRAGGLER = lazy_pattern(r"^\s*Rank (?P<rank>\d+)(?: has launched up to operation (?P<count>\d+))? -- ")


def _counts(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The RAS report lists, for each number of operations, the ranks that got no further, where they are few."""
    known: dict[int, int] = {}
    seen: list[int] = []
    for _, line in zip(range(60), lines, strict=False):
        group = _LAUNCHED.match(line)
        single = _STRAGGLER.match(line)
        if group:
            seen.append(int(group["count"]))
        elif single:
            if single["count"]:
                seen.append(int(single["count"]))
            if seen:
                known[int(single["rank"])] = seen[-1]
        elif line.strip():
            break
    behind = tuple(rank for rank, count in known.items() if count < max(seen))
    what = f"NCCL's RAS report on {match['what']}"
    yield RanksMissing(missing=behind, what=what) if behind else CollectiveMismatch(what=what)


_CHANNEL = lazy_pattern(r"(?:Channel|Ring) \d+(?:/\d+)? ?: (?P<rank>\d+)\[\w+\] -> (?P<peer>\d+)\[\w+\] via P2P\b")


def _channels(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """How ranks communicate: thousands of lines say so, right after one that comes once per rank."""
    found: set[int] = set()
    for _, line in zip(range(60), lines, strict=False):
        channel = _CHANNEL.search(line)
        if channel and int(channel["rank"]) not in found and len(found) < 2:
            found.add(int(channel["rank"]))
            yield TransportUsed(name="P2P", rank=int(channel["rank"]), peer_rank=int(channel["peer"]))


def _channel(match: re.Match[str]) -> Fact:
    return TransportUsed(name="P2P", rank=int(match["rank"]), peer_rank=int(match["peer"]))


_LINK = lazy_pattern(
    r"(?:Channel|Ring) 00(?:/0)? ?: (?P<sends>\d+)(?:\[\w+\])? -> (?P<receives>\d+)(?:\[\w+\])? (?P<only>\[receive\] )?(?:\[send\] )?via "
)


def _member(match: re.Match[str]) -> Fact:
    """Who connects a channel states its own number, as sender or as sole receiver, but not the world size."""
    return CommMember(index=int(match["receives"] if match["only"] else match["sends"]), size=1)


PROGRESS = (Signature(_CHANNEL.pattern, _channel, ()), Signature(_LINK.pattern, _member, ()))
"""In a small log each such line counts: the lines that come once per rank may have been cut off."""

BLOCKS = (
    block(r"NCCL INFO (?:Trees \[|P2P Chunksize set to)", _channels),
    block(r"Communicator ranks have different (?P<what>\w+) operation counts", _counts),
)

_CODES = (
    "unhandled cuda error",
    "unhandled system error",
    "internal error",
    "invalid argument",
    "invalid usage",
    "remote error",
)
"""The numbers of ncclResult_t, from 1."""

_WARN = r"(?:NCCL WARN |^\s*)"


SIGNATURES = (
    # interfaces
    signature(r"NET ?: Using interface (?P<list>[^\n]{0,200})", _interfaces),
    signature(r"(?:Bootstrap|NET/Socket) ?: ?Using (?P<list>[^\n]{0,600})", _interfaces),
    # connections
    signature(
        r"(?:connect|Connect)(?: to "
        + _ADDR
        + r")? returned (?P<text>[A-Z][\w ]{1,60}?), retrying(?: \((?P<tried>\d+)/(?P<of>\d+)\))?",
        _retry,
    ),
    signature(
        r"(?:(?:NCCL WARN|Net ?:|[sS]ocket\w*:) |^\s*|Poll|Start)[Cc]onnect to "
        + _ADDR
        + r" (?:failed ?: |failed with error |returned -?\d+ ?\()(?P<text>[A-Z][\w ]+)",
        _connect,
    ),
    signature(
        r"[Cc]onnect (?:to " + _ADDR + r" )?returned (?P<text>[A-Z][\w ]{1,60}?), exceeded error retry count", _connect
    ),
    signature(
        r"socket(?:StartConnect|PollConnect): (?P<text>exceeded (?:retries|timeouts|error retry count) \(\d+\))",
        lambda m: ConnectFailed(why=why(m["text"])),
    ),
    signature(r"Call to connect (?:to " + _ADDR + r" )?(?:failed|timeout) ?: (?P<text>[A-Z][\w ]+)", _connect),
    # its picture of the machine is inconsistent
    signature(
        r"Call to (?:recv from|send to|recv|send|read|write)(?: " + _ADDR + r")? failed ?: (?P<how>[A-Z][\w ]+)",
        lambda m: PeerLost(how=m["how"].lower().strip(), peer=m["peer"]),
    ),
    # ranks that do not fit each other
    signature(
        r"Bootstrap Root ?: mismatch in (?:rank count from procs (?P<seen>\d+) : (?P<expected>\d+)|"
        r"info from procs, nranks (?P<seen2>\d+) vs (?P<expected2>\d+))",
        lambda m: WorldSizeConflict(
            seen=m["seen"] or m["seen2"], expected=m["expected"] or m["expected2"], what="NCCL ranks"
        ),
    ),
    signature(
        r"Mismatched NCCL version detected ?: rank (?P<rank>\d+) version (?P<here>\d+) rank \d+ version (?P<there>\d+)",
        _versions,
    ),
    signature(
        r"NCCL version mismatch with remote peer[^\n]{0,80}\(local: (?P<here>[\w.+]+), remote (?P<there>[\w.+]+)\)",
        lambda m: VersionConflict(component="NCCL", here=m["here"], there=m["there"]),
    ),
    # resources
    signature(
        r"(?:Error: failed to extend|unable to extend|fallocate: Failed to extend) (?P<path>/dev/shm/\S+) to (?P<size>\d+) bytes",
        _shm,
    ),
    signature(
        r"Error while (?:creating|attaching to|opening)[^\n]{0,20} shared memory segment (?P<path>\S+) \(size (?P<size>\d+)\)",
        _shm,
    ),
    signature(r"Call to (?:posix_fallocate|shm_open|ftruncate) failed ?: (?P<text>[A-Z][\w ]+)", _shm),
    # devices among themselves
    signature(
        r"(?P<what>failed to open CUDA IPC handle[^\n]{0,60}|failed to peer with device [^\n]{0,80}|"
        r"failed to get CUDA IPC handle to device[^\n]{0,60}|peer access is not supported between these two devices|peer mapping resources exhausted|"
        r"P2P is disabled between NVLINK connected GPUs \d+ and \d+)",
        _peer_access,
    ),
    signature(
        r"(?P<what>Could not enable P2P between dev \w\S{0,60} and dev \w+)",
        lambda m: PeerAccessFault(what=m["what"], fatal=False),
    ),
    signature(r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory", _nvls),
    signature(
        r"transport/nvls\.cc:\d+ (?:\([^)]*\) )?NCCL WARN Cuda failure (?P<what>[^\n]{0,60})",
        lambda m: PeerAccessFault(what=f"NVLS: CUDA failure {m['what'].strip()}"),
    ),
    signature(
        r"transport/p2p\.cc:\d+ NCCL WARN Cuda failure (?P<what>[^\n]{0,60})",
        lambda m: PeerAccessFault(what=f"peer to peer: CUDA failure {m['what'].strip()}"),
    ),
    signature(
        r"Check failed: \w+ == ncclSuccess:? \((?P<code>[1-6]) vs\. 0\)",
        lambda match: CommunicationFailed(code=_CODES[int(match["code"]) - 1]),
    ),
    signature(
        _WARN + r"(?:Failed to (?:malloc|CUDA host alloc) (?P<requested>\d+) bytes|malloc of (?P<size>\d+) bytes failed"
        r"|[^\n]{0,80}?Unrecoverable error detected: malloc\(size=(?P<asked>\d+)\) returned null)",
        lambda m: HostAllocationFailed(requested=f"{m['requested'] or m['size'] or m['asked']} bytes"),
    ),
)
