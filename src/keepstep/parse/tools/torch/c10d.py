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
from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.network import ConnectFailed, PeerAwaited, PeerLost, RendezvousTimeout, Why
from keepstep.model.facts.sync import (
    CollectiveMismatch,
    CollectiveProgress,
    CollectiveTimeout,
    ForkOrThread,
    RanksMissing,
    ReplicasDiffer,
    TimeoutHeardOf,
)
from keepstep.parse.scan.signature import integers, signature
from keepstep.parse.tools.network.sockets import why

_WHO = r"(?:\[(?:PG (?:ID )?(?P<group>[^\]\n]{0,120}?) )?Rank (?P<rank>\d+)\] )?"
_GROUP = r"(?:\[PG (?:ID )?(?P<group>\d+[^\]\n]{0,100}?) )?"
_NUMBER = r"(?:\d+|-1)"


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
    rank, source = int(match["rank"]), int(match["source"])
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
        r"\[PG (?:ID )?(?P<group>\d+[^\]\n]{0,100}?) Rank (?P<rank>\d+)\] Timeout at (?:NCCL|XCCL|collective)[^:\n]{0,40}: (?P<seq>\d+)",
        CollectiveTimeout,
    ),
    signature(
        _GROUP
        + r"Rank (?P<rank>\d+)\] Received a (?:dump signal|timeout signal)[^\n]{0,40}? due to a collective timeout from this local rank",
        CollectiveTimeout,
    ),
    signature(
        _GROUP + r"Rank (?P<rank>\d+)\] Received a (?:dump signal|timeout signal)[^\n]{0,20}? from this local rank",
        CollectiveTimeout,
    ),
    signature(
        _GROUP + r"Rank (?P<rank>\d+)\] Received a dump signal due to a collective timeout from rank (?P<of>\d+)",
        TimeoutHeardOf,
    ),
    signature(
        _GROUP + r"Rank (?P<rank>\d+)\] Observed (?:flight recorder )?dump signal from another rank", TimeoutHeardOf
    ),
    signature(
        _GROUP + r"Rank (?P<rank>\d+)\] Received a (?:global timeout|timeout|dump) ?(?:signal )?from another rank",
        TimeoutHeardOf,
    ),
    signature(
        _GROUP
        + r"Rank (?P<rank>\d+)\][^\n]{0,250}?[Ll]ast enqueued (?:NCCL |XCCL )?work: (?P<last_enqueued>"
        + _NUMBER
        + r"), last completed (?:NCCL |XCCL )?work: (?P<last_completed>"
        + _NUMBER
        + r")",
        CollectiveProgress,
    ),
    signature(r"(?:Rank (?P<rank>\d+)\][^\n]{0,20})?[Hh]eartbeat monitor timed out", CollectiveTimeout, op="HEARTBEAT"),
    signature(
        r"Received a dump signal due to a heartbeat timeout|ProcessGroupNCCL's watchdog got stuck for \d+ seconds",
        CollectiveTimeout,
        op="HEARTBEAT",
    ),
    signature(
        r"NCCL communicator was aborted on rank (?P<rank>\d+)\.(?! {1,3}Original reason[^\n]{0,60}Watchdog caught)",
        CollectiveTimeout,
    ),
    signature(r"\[Rank (?P<rank>\d+)\] Some NCCL operations have failed or timed out", CollectiveTimeout),
    signature(
        _GROUP + r"Rank (?P<rank>\d+)\] +failure detected by watchdog at work sequence id: (?P<seq>\d+)"
        r"(?: PG status: last enqueued work: (?P<begun>-?\d+), last completed work: (?P<done>-?\d+))?",
        _detected,
    ),
    signature(_GROUP + r"Rank (?P<rank>\d+)\] +First PG on this rank to signal dumping", CollectiveTimeout),
    # desync debug (TORCH_NCCL_DESYNC_DEBUG)
    signature(
        r"To our best knowledge, ranks \[(?P<missing>[\d, ]+)\] are the lagging ranks",
        RanksMissing,
        what="desync report",
    ),
    signature(
        r"\[(?P<missing>[\d, ]+)\] finished collective #(?:\d+), but didn't join collective #",
        RanksMissing,
        what="desync report",
    ),
    signature(r"First PG on this rank that detected no heartbeat of its watchdog", CollectiveTimeout, op="HEARTBEAT"),
)

_DEBUG_MODE = (
    signature(
        r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running (?:inconsistent )?collective: "
        r"(?P<left>CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d+)(?!\d),? ?)?[^\n]{0,800}?)"
        r"(?:, ?but Rank (?P<other>\d+) is running (?:inconsistent )?collective: (?P<right>CollectiveFingerPrint\([^\n]{0,400})|\n|$)",
        _fingerprints,
    ),
    signature(r"Mismatch between collective operation types across ranks", CollectiveMismatch, what="operation types"),
    signature(
        r"Error when verifying shape tensors for collective (?P<left>\w+) on rank (?P<rank>\d+)",
        CollectiveMismatch,
        what="shapes",
    ),
    signature(
        r"Cannot apply desired operation due to shape mismatches|Impossible to apply the desired operation due to inadequate shapes",
        CollectiveMismatch,
        what="shapes",
    ),
    # DeepSpeed ZeRO-3
    signature(
        r"disagreement between rank ?(?P<rank>\d+) and rank ?(?P<other_rank>\d+)",
        CollectiveMismatch,
        what="values that must agree",
    ),
)

_BARRIERS = (
    signature(
        r"\bRanks? (?P<missing>\d[\d, ]*) failed to pass monitoredBarrier in \d+ ms",
        RanksMissing,
        what="monitored barrier",
    ),
    signature(
        r"successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank (?P<missing>\d+)",
        RanksMissing,
        what="monitored barrier",
    ),
    signature(
        r"Process [Gg]roup destroyed on rank (?P<index>\d+)",
        lambda m: WorldSeen(index=int(m["index"]), rank=int(m["index"])),
    ),
    signature(
        r"(?:barrier|gather|scatter|broadcast) failed -- missing ranks: (?P<missing>\d[\d, ]*)",
        RanksMissing,
        what="store collective",
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
        r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retr\w{3,6}ing ncclUniqueId from "
        r"\[(?P<source>\d+)\][^\n]{0,160}?got error: (?P<error>[^\n]{0,120})",
        _unique_id,
    ),
    signature(
        r"waitForInput: socket SocketImpl\([^\n]{0,200}?\) timed out after (?P<timeout_ms>\d+)ms",
        CollectiveTimeout,
        op="STORE",
    ),
    signature(
        r"Timed out after \d+ seconds waiting for clients\. (?P<joined>\d+)/(?P<expected>\d+) clients joined",
        RendezvousTimeout,
        where="store",
    ),
    signature(r"wait timeout after \d+ms, keys: (?!\S*(?:ncclUniqueId))", RendezvousTimeout, where="store key"),
    signature(r"barrier timeout after \d+ms, key", RendezvousTimeout, where="store key"),
    signature(r"Timeout waiting for key: ", RendezvousTimeout, where="store key"),
    signature(
        r"(?:RuntimeError|DistStoreError|TimeoutError)[^\n]{0,20}: (?:Socket Timeout|Wait timeout)\b",
        RendezvousTimeout,
        where="store key",
    ),
    signature(
        r"[Cc]lient socket has timed out after \S+ while trying to connect to \(?(?P<peer>[\w.\-:]+)(?:, ?\d+\))?",
        ConnectFailed,
        why=Why.TIMED_OUT,
    ),
    signature(
        r"client socket has failed to connect to (?P<peer>\[?[\w.\-:]+\]?(?::\d+)?) \(?errno: (?P<errno>\d+) - (?P<text>[A-Z][\w ]+)",
        _client,
    ),
    signature(
        r"TCP client failed to connect(?:/validate)? to host (?P<peer>\S+) - timed out",
        ConnectFailed,
        why=Why.TIMED_OUT,
    ),
    signature(
        r"TCP client failed to connect(?:/validate)? to host (?P<peer>\S+) - retrying",
        ConnectFailed,
        why=Why.TIMED_OUT,
        final=False,
    ),
    signature(
        r"client socket has failed to connect to any network address of \(?(?P<peer>[\w.\-:]+)",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(
        r"server socket on (?P<peer>\S+) has timed out, will retry", ConnectFailed, why=Why.TIMED_OUT, final=False
    ),
    signature(
        r"server socket on (?P<peer>\S+) is not yet listening[^\n]{0,60}, will retry",
        ConnectFailed,
        why=Why.REFUSED,
        final=False,
    ),
    signature(r"connect\(\) timed out\. Original timeout was \d+ ms", ConnectFailed, why=Why.TIMED_OUT),
    signature(r"The connection to the (?:C10d|etcd) store has failed", ConnectFailed, why=Why.FAILED),
    signature(
        r"(?:(?:DistNetworkError|DistStoreError|RuntimeError|"
        r"DistBackendError)[^\n]{0,250}?)(?:Failed to recv, got 0 bytes|Failed to send, sent 0 bytes|Connection was likely closed)",
        PeerLost,
        how="store connection closed",
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
        r"No socket on \((?P<peer>[\w.\-:]+), ?\d+\) is listening yet, will retry",
        ConnectFailed,
        why=Why.REFUSED,
        final=False,
    ),
    signature(
        r"server socket has failed to (?:bind|listen)[^\n]{0,80}errno: 13 - (?P<detail>Permission denied)",
        ClusterSpecInvalid,
    ),
    signature(r"Stop_waiting response is expected", PeerLost, how="store connection closed"),
    signature(
        r"(?:recvValue|recvVector|sendBytes|recvValueWithTimeout)\w{0,20} failed on SocketImpl\([^\n]{0,400}?\): (?P<how>[^\n]{0,60})",
        lambda m: PeerLost(how=f"store: {m['how'].strip()}", final=False),
    ),
    signature(r"Failed to check the \"should dump\" flag on TCPStore", PeerLost, how="store gone", final=False),
    signature(
        r"Error: [Ff]ailed to (?:recv|send), (?:got|sent) -?\d+ bytes(?!\. Connection was likely closed)",
        PeerLost,
        how="the store closed the connection",
    ),
    signature(r"Error: Unexpected poll revent on the master's listening socket", PeerLost, how="the store went away"),
)

_SHAPES = (
    signature(
        r"Error: (?P<op>output tensor size must be equal to world_size times input tensor size|input tensor must be the same"
        r" size as output size times world size|[Ss]plit sizes doesn't match total dim 0 size|Tensor's dim 0 does not divide"
        r" equally across group size|Number of tensor splits not equal to group size|invalid tensor size at index \d+)",
        ShapeMismatch,
    ),
    signature(
        r"input dimension \d+ \(\d+ must be a multiple of group_size (?P<right>\d+)",
        ShapeMismatch,
        op="a dimension that the group's size must divide",
    ),
    signature(
        r"Error: (?:input tensor must be the same type as the output tensor|Output tensor and input tensor must have (?:the same"
        r" element|same) type|[Tt]ensors must (?:all )?have (?:the same|identical) type)",
        DtypeMismatch,
    ),
    signature(
        r"ProcessGroup\w{2,12}::\w{2,40}: invalid tensor type at index \d+ \(expected (?P<left>[^,\n]{1,80}), got (?P<right>[^\n]{1,60})\)",
        DtypeMismatch,
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

_UNSUPPORTED = (
    signature(
        r"Error: (?P<what>use_libuv was requested but PyTorch was buil[td] without libuv support"
        r"|makeDeviceFor(?:Hostname|Interface)\(\): unsupported gloo device|Unconvertible NCCL type[^\n]{0,60}"
        r"|Unknown c10d backend type [^\n]{0,40}|Cannot use ReduceOp\.\w+ with [^\n]{0,40}"
        r"|ProcessGroup\w+::\w+: unsupported (?:layout|device type)[^\n]{0,40})",
        UnsupportedCombination,
    ),
    signature(r"RuntimeError: Invalid scalar type", DtypeMismatch),
    signature(
        r"CUDA tensor detected and the MPI used doesn't have (?P<what>CUDA-aware MPI support)", UnsupportedCombination
    ),
    signature(r"(?P<what>ProcessGroup\w{1,40} (?:only supports|does not support)[^\n]{0,80})", UnsupportedCombination),
    signature(r"(?P<what>no support for \w+ in \w+ process group)", UnsupportedCombination),
    signature(r"(?P<what>No backend type associated with device type \w+)", UnsupportedCombination),
    signature(r"Error: (?P<what>Tensors must be CUDA and dense)", UnsupportedCombination),
    signature(
        r"(?P<what>Process[Gg]roup NCCL is only supported with GPUs|ProcessGroupNCCL is only supported with GPUs)",
        UnsupportedCombination,
    ),
)

_FORK = (
    signature(
        r"(?:RuntimeError: CUDA error|cuda runtime error \(3\) ?): initialization error",
        ForkOrThread,
        what="CUDA used in a forked process",
    ),
    signature(
        r"Cannot re-initialize (?P<device>\w{2,12}) in (?:a )?forked subprocess",
        lambda match: ForkOrThread(what=f"{match['device']} used in a forked process"),
    ),
    signature(
        r"os\.fork\(\) was called\. os\.fork\(\) is incompatible with multithreaded code",
        ForkOrThread,
        what="fork after JAX started",
        fatal=False,
    ),
    signature(
        r"(?:daemonic processes are not allowed to have children|context has already been set)",
        ForkOrThread,
        what="start method",
        fatal=False,
    ),
)

_REPLICAS = (
    # fairseq, Megatron
    signature(r"gradients are inconsistent between workers", ReplicasDiffer, detail="gradients"),
    signature(
        r"Unable to unpickle data from other workers|workers have fallen out of sync somehow",
        CollectiveMismatch,
        what="calls of all_gather_list",
    ),
    signature(r"[Pp]arameter hashes not matching across DP replicas", ReplicasDiffer, detail="parameter hashes"),
)

_GROUPS = (
    signature(
        r"Rank (?P<seen>\d+) at index \d+ is out of bounds for group size (?P<expected>\d+)",
        WorldSizeConflict,
        what="a rank of a group",
    ),
    signature(
        r"ProcessGroup\w{2,12}::\w{2,40}: invalid (?:root )?rank: (?P<seen>-?\d+)",
        WorldSizeConflict,
        what="a rank of a collective",
    ),
    signature(r"(?P<detail>No rendezvous handler for (?!(?:env|tcp|file):)\w{0,20}:)", ClusterSpecInvalid),
    # torch's own handlers are missing only in builds without torch.distributed, as on Windows before 1.7
    signature(
        r"No rendezvous handler for (?:env|tcp|file):",
        UnsupportedCombination,
        what="a build of PyTorch without torch.distributed",
    ),
    signature(r"(?P<detail>port must have value from 0 to 65535 but was \S{1,20})", ClusterSpecInvalid),
    signature(r"(?P<detail>`?(?:rank|world_size)`? must be an integer\. [^\n]{0,40})", ClusterSpecInvalid),
    signature(
        r"the process group: Default process group (?:is|has) not (?:been )?initialized|"
        r"Default process group (?:is|has) not (?:been )?initialized,? please (?:make sure to )?call init_process_group",
        RankVariableMissing,
        name="the process group",
    ),
)

SIGNATURES = (
    _WATCHDOG + _DEBUG_MODE + _BARRIERS + _STORE + _SHAPES + _UNSUPPORTED + _WORLD + _FORK + _REPLICAS + _GROUPS
)
