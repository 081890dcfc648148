# SPDX-License-Identifier: Apache-2.0
"""NCCL's warnings over its versions."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import DeviceShared, DuplicateMember, WorldSizeConflict
from keepstep.core.facts.environment import VersionConflict
from keepstep.core.facts.network import (
    CommunicationFailed,
    ConnectFailed,
    InterfaceMissing,
    InterfaceUsed,
    PeerLost,
    TransportUsed,
    Why,
)
from keepstep.core.facts.platform import PeerAccessFault
from keepstep.core.facts.resource import SharedMemoryExhausted
from keepstep.core.facts.sync import CollectiveMismatch, CommMember
from keepstep.parse.tools.nccl import messages as nccl
from keepstep.parse.tools.nccl.messages import BLOCKS, PROGRESS
from tests.parse.reading import reader

read = reader(nccl)


SAID = [
    (
        "h:151780:151928 [2] include/shm.h:42 NCCL WARN Cuda failure 'invalid argument'",
        CommunicationFailed(code="unhandled cuda error"),
    ),
    (
        "NCCL WARN MNNVL (cliqueSize 4) is available but not working on this system. Check the IMEX channel configuration",
        PeerAccessFault(what="MNNVL (cliqueSize 4) is available but not working on this system"),
    ),
    (
        "h:1:2 [0] transport.cc:39 NCCL WARN No transport found for rank 0[1a000] -> rank 1[1b000]",
        PeerAccessFault(what="No transport found for rank 0[1a000] -> rank 1[1b000]"),
    ),
    ("NCCL INFO Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1", TransportUsed(name="P2P")),
    (
        "gpu41:30277:30277 [0] bootstrap.cc:37 NCCL WARN Bootstrap : no socket interface found",
        InterfaceMissing(),
    ),
    (
        "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        InterfaceMissing(),
    ),
    (
        "ncclSocketInit: connecting to address with family 0 is neither AF_INET(2) nor AF_INET6(10)",
        VersionConflict(component="NCCL", certain=False),
    ),
    (
        "h:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
        InterfaceUsed(name="eth0", address="10.0.0.1"),
    ),
    (
        "h:1:1 [0] NCCL INFO NET/Socket : Using [0]ens5:10.31.0.44<0> [1]veth6:fe80::20b1:7aff:fe02:9c31%veth6<0>",
        InterfaceUsed(name="ens5,veth6", address="10.31.0.44,fe80::20b1:7aff:fe02:9c31"),
    ),
    (
        "h:1:2 [0] include/socket.h:403 NCCL WARN Connect to fe80::20b1%veth6<43117> failed : Network is unreachable",
        ConnectFailed(why=Why.UNREACHABLE, peer="fe80::20b1%veth6<43117>"),
    ),
    (
        "h:1:2 [0] include/socket.h:409 NCCL WARN Net : Connect to 192.168.1.9<54263> failed : No route to host",
        ConnectFailed(why=Why.UNREACHABLE, peer="192.168.1.9<54263>"),
    ),
    (
        "socketStartConnect: Connect to 172.17.0.2<38847> failed : Software caused connection abort",
        ConnectFailed(why=Why.FAILED, peer="172.17.0.2<38847>"),
    ),
    (
        "h:1:1 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) "
        "errno 115(Operation now in progress)",
        ConnectFailed(why=Why.UNREACHABLE, peer="10.0.0.4<56849>"),
    ),
    (
        "h:1:2 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying (26/34) after sleep for 2600 msec",
        ConnectFailed(why=Why.UNREACHABLE, final=False),
    ),
    (
        "h:1:2 [0] NCCL INFO socketPollConnect: connect to 10.0.0.4<5> returned No route to host, retrying (34/34) after sleep",
        ConnectFailed(why=Why.UNREACHABLE, peer="10.0.0.4<5>"),
    ),
    (
        "h:1:2 [0] include/socket.h:361 NCCL WARN Call to connect timeout : Connection refused",
        ConnectFailed(why=Why.REFUSED),
    ),
    (
        "h:1:2 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer node2<40108>",
        PeerLost(how="connection closed", peer="node2<40108>"),
    ),
    (
        "h:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgressOpt: Call to recv from 10.0.0.2<4> failed : Connection reset by peer",
        PeerLost(how="connection reset by peer", peer="10.0.0.2<4>"),
    ),
    (
        "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
        DeviceShared(ranks=(0, 1), device="1000"),
    ),
    (
        "Mismatched NCCL version detected : rank 0 version 22003 rank 8 version 2708",
        VersionConflict(component="NCCL", here="2.20.3", there="2.7.8", rank=0),
    ),
    (
        "bootstrap.cc:200 NCCL WARN Bootstrap Root : mismatch in rank count from procs 4 : 8",
        WorldSizeConflict(seen="4", expected="8", what="NCCL ranks"),
    ),
    ("NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in", DuplicateMember(member="1")),
    (
        "init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls at and around rank 39. You",
        CollectiveMismatch(what="NCCL", other_rank=39),
    ),
    (
        "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        SharedMemoryExhausted(),
    ),
    (
        "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-2aRoPi to 9637892 bytes",
        SharedMemoryExhausted(path="/dev/shm/nccl-2aRoPi", size="9637892"),
    ),
    (
        "transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'",
        PeerAccessFault(what="NVLS: CUDA failure 1 'invalid argument'"),
    ),
    (
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        PeerLost(how="NCCL: remote process exited or network error"),
    ),
    (
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:410, unhandled system error, NCCL version 2.4.8",
        CommunicationFailed(code="unhandled system error"),
    ),
]

HARMLESS = [
    "h:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    "h:1:1 [0] NCCL INFO NET/IB : No device found.",
    "h:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
    "h:1:1 [0] NCCL INFO Channel 00 : 0[1e0] -> 1[1e0] [send] via NET/Socket/0",
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_healthy_runs_give_nothing(text):
    assert read(text) == []


def test_multicast_that_falls_back_is_not_fatal():
    (fact,) = read(
        "NCCL INFO Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2 : CUDA error. Proceeding without NVLS support."
    )
    assert not fact.fatal


def test_direct_links_are_read_once_a_rank_from_the_lines_after_the_trees():
    text = [f"h:1:2 [0] NCCL INFO Channel {n:02d}/0 : 0[0] -> 1[1] via P2P/IPC" for n in range(8)]
    (block,) = [each for each in BLOCKS if "Trees" in each.begin.expression]
    match = block.begin.pattern.search("h:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1")
    assert list(block.read(match, iter(text))) == [TransportUsed(name="P2P", rank=0, peer_rank=1)]


def test_the_ras_report_names_the_ranks_that_got_less_far():
    (block,) = [each for each in BLOCKS if "different" in each.begin.expression]
    match = block.begin.pattern.search("  Communicator ranks have different AllGather operation counts")
    rows = ["  30 ranks have launched up to operation 641", "  2 ranks have launched up to operation 640"]
    rows += [f"  Rank {n} -- GPU 4 managed by process 323032 on node 10.137.190.124" for n in (12, 13)]
    (fact,) = block.read(match, iter(rows))
    assert fact.missing == (12, 13)


def test_in_a_small_log_each_line_of_a_direct_link_counts():
    row, _ = PROGRESS
    line = "demo:1416:1654 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via P2P/direct pointer"
    assert row.read(line) == TransportUsed(name="P2P", rank=0, peer_rank=1)
    assert row.read("demo:1416:1654 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via SHM/direct") is None


@pytest.mark.parametrize(
    "line, index",
    [
        ("h:151780:151928 [2] NCCL INFO Ring 00 : 2[2] -> 3[3] via direct shared memory", 2),
        ("h:84299:84449 [0] NCCL INFO Ring 00 : 3 -> 4 [receive] via NET/IB/0", 4),
        ("h:84299:84449 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IB/0", 4),
        ("h:84299:84449 [0] NCCL INFO Channel 00/0 : 4[0] -> 3[3] [send] via NET/IB/0", 4),
    ],
)
def test_who_connects_a_channel_tells_its_number(line, index):
    _, row = PROGRESS
    assert row.read(line) == CommMember(index=index, size=1)
