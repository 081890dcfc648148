# SPDX-License-Identifier: Apache-2.0
"""PyTorch's store, watchdog and debug mode, from torch 1.x to 2.13."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSeen, WorldSizeConflict
from keepstep.core.facts.data import ShapeMismatch
from keepstep.core.facts.network import ConnectFailed, PeerAwaited, PeerLost, RendezvousTimeout, Why
from keepstep.core.facts.sync import (
    CollectiveMismatch,
    CollectiveProgress,
    CollectiveTimeout,
    ForkOrThread,
    RanksMissing,
    TimeoutHeardOf,
)
from keepstep.parse.tools.torch import c10d
from tests.parse.reading import reader

read = reader(c10d)


SAID = [
    (
        "Rank 1 failed to pass monitoredBarrier in 30000 ms",
        RanksMissing(missing=(1,), what="monitored barrier"),
    ),
    ("RuntimeError: No route to host", ConnectFailed(why=Why.UNREACHABLE)),
    (
        "Exception: Unable to unpickle data from other workers. all_gather_list requires all workers to enter the function together",
        CollectiveMismatch(what="calls of all_gather_list"),
    ),
    ("RuntimeError: Stop_waiting response is expected", PeerLost(how="store connection closed")),
    ("RuntimeError: CUDA error: initialization error", ForkOrThread(what="CUDA used in a forked process")),
    (
        "ValueError: output tensor size must be equal to world_size times input tensor size",
        ShapeMismatch(op="output tensor size must be equal to world_size times input tensor size"),
    ),
    (
        "[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(OpType=ALLREDUCE, TensorShape=[2, 3], Timeout(ms)=1800000) ran for 1801 milliseconds before timing out.",
        CollectiveTimeout(rank=2, op="ALLREDUCE", numel_in=6, timeout_ms=1800000),
    ),
    (
        "[E ProcessGroupNCCL.cpp:828] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=16207, OpType=ALLGATHER, Timeout(ms)=4800000) ran for 4803252 milliseconds",
        CollectiveTimeout(rank=2, op="ALLGATHER", seq=16207, timeout_ms=4800000),
    ),
    (
        "[E901 08:12:24.549 ProcessGroupNCCL.cpp:689] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=5108, OpType=BROADCAST, NumelIn=64, NumelOut=64, Timeout(ms)=3000000) ran for 3000371",
        CollectiveTimeout(rank=3, op="BROADCAST", seq=5108, numel_in=64, numel_out=64, timeout_ms=3000000),
    ),
    (
        "[PG ID 0 PG GUID 0(default_pg) Rank 3]  failure detected by watchdog at work sequence id: 5108 "
        "PG status: last enqueued work: 5109, last completed work: 5107",
        CollectiveProgress(rank=3, last_enqueued=5109, last_completed=5107, group="0 PG GUID 0(default_pg)"),
    ),
    (
        "[PG 1 Rank 1] Timeout at NCCL work: 158046, last enqueued NCCL work: 158046, last completed NCCL work: 158045.",
        CollectiveTimeout(rank=1, seq=158046, group="1"),
    ),
    (
        "[PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from this local "
        "rank and we will try our best to dump the debug info. Last enqueued NCCL work: 22, last completed NCCL work: 21.",
        CollectiveTimeout(rank=1),
    ),
    (
        "[PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 7 and we",
        TimeoutHeardOf(rank=5, of=7),
    ),
    (
        "[PG ID 0 PG GUID 0(default_pg) Rank 0] Observed flight recorder dump signal from another rank via TCPStore.",
        TimeoutHeardOf(rank=0),
    ),
    (
        "[PG ID 0 PG GUID 0(default_pg) Rank 7] ProcessGroupNCCL's watchdog got stuck for 480 seconds without",
        CollectiveTimeout(op="HEARTBEAT"),
    ),
    (
        "\t - To our best knowledge, ranks [1,3] are the lagging ranks that caused this timeout.",
        RanksMissing(missing=(1, 3), what="desync report"),
    ),
    (
        "RuntimeError: [Rank 0]: Ranks 4, 5, 6, 7 failed to pass monitoredBarrier in 2000000 ms",
        RanksMissing(missing=(4, 5, 6, 7), what="monitored barrier"),
    ),
    (
        "RuntimeError: [1] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value "
        "store by key '0', but store->get('0') got error: Socket Timeout",
        RanksMissing(rank=1, missing=(0,), what="NCCL communicator set-up"),
    ),
    (
        "RuntimeError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
        "store by key '0', but store->get('0') got error: Connection reset by peer",
        PeerLost(rank=3, how="store: Connection reset by peer", peer_rank=0),
    ),
    (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
        RendezvousTimeout(rank=0, joined=1, expected=2, where="store-based barrier"),
    ),
    (
        "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
        "(world_size=4, worker_count=3, timeout=0:30:00)",
        PeerAwaited(rank=0, world=4),
    ),
    (
        "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
        "(world_size=4, worker_count=8, timeout=0:30:00)",
        WorldSizeConflict(rank=0, seen="8", expected="4", what="store-based barrier"),
    ),
    (
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        RendezvousTimeout(joined=1, expected=2, where="store"),
    ),
    (
        "[E socket.cpp:957] [c10d] The client socket has timed out after 900s while trying to connect to (10.0.0.8, 29500).",
        ConnectFailed(why=Why.TIMED_OUT, peer="10.0.0.8"),
    ),
    (
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node-0]:29500 (errno: 111 - Connection refused).",
        ConnectFailed(why=Why.REFUSED, peer="[node-0]:29500", final=False),
    ),
    ("RuntimeError: connect() timed out. Original timeout was 60000 ms.", ConnectFailed(why=Why.TIMED_OUT)),
    ("RuntimeError: Socket Timeout", RendezvousTimeout(where="store key")),
    (
        "torch.distributed.DistNetworkError: Connection reset by peer",
        PeerLost(how="connection reset by peer"),
    ),
    (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=11, OpType=BROADCAST, TensorShape=[2], TensorDtypes=Float), but Rank 3 "
        "is running collective: CollectiveFingerPrint(SequenceNumber=11, OpType=BROADCAST, TensorShape=[4],",
        CollectiveMismatch(
            rank=0,
            what="collective fingerprints",
            left="BROADCAST[2]",
            right="BROADCAST[4]",
            other_rank=3,
            seq=11,
        ),
    ),
    (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running inconsistent collective: "
        "CollectiveFingerPrint(OpType=BARRIER)",
        CollectiveMismatch(rank=3, what="collective fingerprints", left="BARRIER[]"),
    ),
    (
        "[E1002 16:04:30.860 ProcessGroupNCCL.cpp:2252] [PG ID 1 PG GUID 1 Rank 1]  failure detected by watchdog at work "
        "sequence id: 1116 PG status: last enqueued work: 1118, last completed work: 1115",
        CollectiveTimeout(rank=1, seq=1116),
    ),
    (
        "[PG ID 1 PG GUID 1 Rank 2] First PG on this rank to signal dumping.",
        CollectiveTimeout(rank=2),
    ),
    ("| distributed init (rank 3): env://, gpu 3", WorldSeen(rank=3, index=3)),
    ("Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/4", WorldSeen(rank=1, index=1, size=4)),
    (
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing",
        ForkOrThread(what="CUDA used in a forked process"),
    ),
]

HARMLESS = [
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - Cannot assign requested address).",
    "[W socket.cpp:426] [c10d] The client socket has failed to connect to [::1]:29500 (errno: 97 - Address family not supported by protocol).",
    "I1028 12:13:38.405081 632355 ProcessGroupNCCL.cpp:843] [Rank 0] NCCL watchdog thread started!",
    "[W ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL.",
    "[rank0] Using device 0 as device used by this process is currently unknown. This can potentially cause a hang",
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_healthy_runs_give_nothing(text):
    assert read(text) == []


def test_store_noise_of_a_healthy_end_is_marked_as_not_final():
    (fact,) = read(
        '[PG ID 0 Rank 1] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down'
    )
    assert isinstance(fact, PeerLost)
    assert not fact.final
