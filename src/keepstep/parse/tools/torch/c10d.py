# SPDX-License-Identifier: Apache-2.0
"""PyTorch's c10d: the store, the rendezvous, the NCCL watchdog and heartbeat, debug mode, barriers.

Wordings from torch 1.4 (``[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(OpType=...``)
to 2.13 (``[PG ID 0 PG GUID 0(default_pg) Rank 2]``). The rank in such a bracket is the rank within
the process group; the rules compare it with who printed the line.
"""

from __future__ import annotations

import math
import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen, WorldSizeConflict
from keepstep.model.facts.network import ConnectFailed, PeerAwaited, PeerLost, RendezvousTimeout
from keepstep.model.facts.sync import CollectiveMismatch, CollectiveTimeout, ForkOrThread, RanksMissing
from keepstep.parse.scan.signature import integers, signature
from keepstep.parse.tools.network.sockets import why

_WHO = r"(?:\[(?:PG (?:ID )?(?P<group>[^\]\n]{0,120}?) )?Rank (?P<rank>\d+)\] )?"
_GROUP = r"(?:\[PG (?:ID )?(?P<group>\d+[^\]\n]{0,100}?) )?"


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _numel(shape: str | None) -> int | None:
    return math.prod(integers(shape)) if shape is not None else None


def _timeout(match: re.Match[str]) -> Fact:
    found = match.groupdict()
    shape = _numel(found["shape"])
    return CollectiveTimeout(
        rank=_int(found["rank"]),
        op=found["op"],
        seq=_int(found["seq"]),
        numel_in=_int(found["numel_in"]) if found["numel_in"] else shape,
        numel_out=_int(found["numel_out"]),
        timeout_ms=_int(found["timeout_ms"]),
        group=found["group"],
    )


def _detected(match: re.Match[str]) -> Fact | None:
    """A watchdog found its rank waiting; one with nothing outstanding reports other ranks."""
    if match["begun"] is not None and match["begun"] == match["done"]:
        return None
    return CollectiveTimeout(rank=int(match["rank"]), seq=int(match["seq"]), group=match["group"])


def _unique_id(match: re.Match[str]) -> Fact:
    """Rank N needs the NCCL id that another rank must write: that rank did not come, or ended."""
    error = match["error"]
    rank, source = _int(match["rank"]), int(match["source"])
    if re.search(r"[Tt]ime|timed", error):
        return RanksMissing(rank=rank, missing=(source,), what="NCCL communicator set-up")
    return PeerLost(rank=rank, how=f"store: {error.strip()[:60]}", peer_rank=source)


def _barrier(match: re.Match[str]) -> Fact:
    world, count = int(match["world"]), int(match["count"])
    rank = _int(match["rank"])
    if count > world:
        return WorldSizeConflict(rank=rank, seen=str(count), expected=str(world), what="store-based barrier")
    if match["verb"].startswith("Wait"):
        return PeerAwaited(rank=rank, world=world)
    if (
        int(match["key"] or 1) > 1
    ):  # groups were formed before: the network works, but some ranks did not come to this one
        return RanksMissing(rank=rank, missing=(), what="store-based barrier")
    return RendezvousTimeout(rank=rank, joined=count, expected=world, where="store-based barrier")


def _client(match: re.Match[str]) -> Fact | None:
    """A try that failed; ``::1`` and a missing address family are tried and dropped in healthy runs."""
    if match["errno"] in ("97", "99", "22"):
        return None
    return ConnectFailed(why=why(match["text"]), peer=match["peer"], final=False)


def _fingerprints(match: re.Match[str]) -> Fact:
    found = match.groupdict()
    return CollectiveMismatch(
        rank=int(found["rank"]),
        what="collective fingerprints",
        left=_short(found["left"]),
        right=_short(found["right"]),
        other_rank=_int(found["other"]),
        seq=_int(found["seq"]),
    )


def _world(match: re.Match[str]) -> Fact:
    found = match.groupdict()
    index = _int(found.get("index"))
    return WorldSeen(rank=index, index=index, size=_int(found.get("size")))


def _short(text: str | None) -> str | None:
    """Operation and shape of a fingerprint."""
    if not text:
        return None
    op = re.search(r"OpType=(\w+)", text)
    shape = re.search(r"TensorShape=\[([^\[\]]*)\]", text)
    return f"{op[1] if op else '?'}[{shape[1] if shape else ''}]"


_WATCHDOG = (
    signature(
        _WHO + r"Watchdog caught collective operation timeout: Work\w*\((?:SeqNum=(?P<seq>\d+), ?)?"
        r"(?:OpType=(?P<op>\w+))?(?:, TensorShape=\[(?P<shape>[\d, ]*)\])?(?:, NumelIn=(?P<numel_in>\d+))?"
        r"(?:, NumelOut=(?P<numel_out>\d+))?(?:[^)\n]{0,80}?Timeout\(ms\)=(?P<timeout_ms>\d+))?",
        _timeout,
    ),
    # 1.5-1.7: Caught collective operation timeout: ...  and NPU/XPU siblings
    signature(
        _WHO + r"Caught collective operation timeout: Work\w*\((?:SeqNum=(?P<seq>\d+), ?)?(?:OpType=(?P<op>\w+))?"
        r"(?:, TensorShape=\[(?P<shape>[\d, ]*)\])?(?:, NumelIn=(?P<numel_in>\d+))?(?:, NumelOut=(?P<numel_out>\d+))?"
        r"(?:[^)\n]{0,80}?Timeout\(ms\)=(?P<timeout_ms>\d+))?",
        _timeout,
    ),
    signature(
        _GROUP + r"Rank (?P<rank>\d+)\] +failure detected by watchdog at work sequence id: (?P<seq>\d+)"
        r"(?: PG status: last enqueued work: (?P<begun>-?\d+), last completed work: (?P<done>-?\d+))?",
        _detected,
    ),
)

_DEBUG_MODE = (
    # desync debug (TORCH_NCCL_DESYNC_DEBUG)
    signature(
        r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running (?:inconsistent )?collective: "
        r"(?P<left>CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d+)(?!\d),? ?)?[^\n]{0,800}?)"
        r"(?:, ?but Rank (?P<other>\d+) is running (?:inconsistent )?collective: (?P<right>CollectiveFingerPrint\([^\n]{0,400})|\n|$)",
        _fingerprints,
    ),
)

_BARRIERS = (
    # DeepSpeed ZeRO-3
    signature(
        r"Process [Gg]roup destroyed on rank (?P<index>\d+)",
        lambda m: WorldSeen(index=int(m["index"]), rank=int(m["index"])),
    ),
    signature(
        r"(?P<verb>Waiting in|Timed out initializing process group in) store based barrier (?:to initialize process group for|on) "
        r"(?:rank: ?(?P<rank>\d+)|\d+ seconds)(?:, for key: store_based_barrier_key:(?P<key>\d+))?[^\n]{0,120}?(?:\(|"
        r", )world_size=(?P<world>\d+), (?:worker_count|num_workers_joined)=(?P<count>\d+)",
        _barrier,
    ),
    signature(
        r"No ranks successfully processed in monitoredBarrier",
        lambda m: RanksMissing(missing=(), what="monitored barrier"),
    ),
)

_STORE = (
    signature(
        r"(?:\[(?P<rank>\d+)\] )?is setting up NCCL communicator and retr\w{3,6}ing ncclUniqueId from "
        r"\[(?P<source>\d+)\][^\n]{0,160}?got error: (?P<error>[^\n]{0,120})",
        _unique_id,
    ),
    signature(
        r"client socket has failed to connect to (?P<peer>\[?[\w.\-:]+\]?(?::\d+)?) \(?errno: (?P<errno>\d+) - (?P<text>[A-Z][\w ]+)",
        _client,
    ),
    signature(
        r"(?:RuntimeError|DistNetworkError|DistBackendError|"
        r"DistStoreError): (?P<how>Connection reset by peer|Broken pipe|Connection refused|Connection timed out"
        r"|No route to host|Network is unreachable|Host is unreachable)",
        lambda m: (
            PeerLost(how=m["how"].lower())
            if "reset" in m["how"] or "pipe" in m["how"]
            else ConnectFailed(why=why(m["how"]))
        ),
    ),
    signature(
        r"(?:recvValue|recvVector|sendBytes|recvValueWithTimeout)\w{0,20} failed on SocketImpl\([^\n]{0,400}?\): (?P<how>[^\n]{0,60})",
        lambda m: PeerLost(how=f"store: {m['how'].strip()}", final=False),
    ),
)


_WORLD = (
    signature(r"\| distributed init \(rank (?P<index>\d+)\)(?:: \S+,? (?:world[ _]size (?P<size>\d+))?)?", _world),
    signature(
        r"(?:Rank (?P<index>\d+): )?Completed store-based barrier for key:store_based_barrier_key:1 with (?P<size>\d+) nodes",
        _world,
    ),
    signature(
        r"[Ii]nitializ(?:ing|ed) distributed[^\n]{0,80}? rank[ =:]{1,2}(?P<index>\d+),? [^\n]{0,40}?world[ _]size[ =:]{1,2}(?P<size>\d+)",
        _world,
    ),
    signature(
        r"Training in distributed mode with multiple processes[^\n]{0,60}?[Pp]rocess (?P<index>\d+), total (?P<size>\d+)",
        _world,
    ),
    signature(r"initialized host \S+ as rank (?P<index>\d+)", _world),
    signature(r"Distributed environment is initialized, (?:[^\n]{0,60} )?world size: (?P<size>\d+)", _world),
)


_FORK = (
    signature(
        r"Cannot re-initialize (?P<device>\w{2,12}) in (?:a )?forked subprocess",
        lambda match: ForkOrThread(what=f"{match['device']} used in a forked process"),
    ),
)


SIGNATURES = _WATCHDOG + _DEBUG_MODE + _BARRIERS + _STORE + _WORLD + _FORK
