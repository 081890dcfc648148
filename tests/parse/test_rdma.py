# SPDX-License-Identifier: Apache-2.0
"""InfiniBand, RoCE and EFA."""

from __future__ import annotations

import pytest

from keepstep.core.facts.network import RdmaTrouble
from keepstep.core.facts.platform import NicFault
from keepstep.parse.tools.network import rdma
from tests.parse.reading import reader

read = reader(rdma)


EXCEEDED = "completion with transport retries exceeded (the peer does not answer)"

SAID = [
    ("libibverbs: Fatal: couldn't read uverbs ABI version.", RdmaTrouble(what="couldn't read uverbs ABI version")),
    (
        "libfabric:652244:1713524816::efa:mr:efa_mr_regattr():1014<warn> Unable to register MR: Invalid argument",
        RdmaTrouble(what="Unable to register MR: Invalid argument"),
    ),
    (
        "F tensorflow/contrib/verbs/rdma.cc:95] Check failed: cq_ Failed to create completion queue",
        RdmaTrouble(what="Failed to create completion queue"),
    ),
    (
        "[g07:27251:0:27251] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
        RdmaTrouble(what="Transport retry count exceeded (the peer does not answer)", device="mlx5_0:1"),
    ),
    (
        "[1,12]<stdout>:node57:815:864 [0] transport/net_ib.cu:80 NCCL WARN NET/IB : Got async event : local catastrophic error",
        NicFault(what="local catastrophic error"),
    ),
    (
        "algo-1:207:270 [3] NCCL WARN NET/OFI Request completed with error. RC: 21. Error: unknown error",
        RdmaTrouble(what="Request completed with error. RC: 21. Error: unknown error"),
    ),
    (
        "n7:2311:2402 [1] nccl_net_ofi_init:1210 NCCL WARN NET/OFI EFA provider requires at least libfabric version 1.22.0.",
        RdmaTrouble(what="EFA provider requires at least libfabric version 1.22.0."),
    ),
    (
        "libfabric:2311:1700000000::efa:cq:efa_rdm_rxe_handle_error():234<warn> rxr_rx_entry_handle_error: err: 113, message: No route",
        RdmaTrouble(what="rxr_rx_entry_handle_error: err: 113, message: No route"),
    ),
    (
        "NCCL WARN Detected mixed local Net device counts across ranks (min 3, max 4). Set NCCL_IGNORE_NET_MISMATCH=1 to continue.",
        RdmaTrouble(what="Detected mixed local Net device counts across ranks (min 3, max 4)"),
    ),
    (
        "NCCL WARN communicator encountered a fatal error (detected in ncclIbTest)",
        RdmaTrouble(what="fatal error of the card or queue pair, seen by ncclIbTest"),
    ),
    (
        "transport/net_ib.cc:838 NCCL WARN NET/IB : Got completion from peer 192.168.17.147<38560> with error 12, opcode 0, len 0, vendor err 129",
        RdmaTrouble(what=EXCEEDED, peer="192.168.17.147<38560>"),
    ),
    (
        "NCCL WARN NET/IB: Got completion from peer 10.0.0.5<5> with status=12 opcode=129 len=1 vendor err 129 (Recv) hca mlx5_10",
        RdmaTrouble(what=EXCEEDED, peer="10.0.0.5<5>"),
    ),
    (
        "NCCL WARN NET/IB: Got completion from peer 10.0.0.5<5> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=1 vendor_err=249",
        RdmaTrouble(what="completion with work request flushed", peer="10.0.0.5<5>"),
    ),
    (
        "misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        RdmaTrouble(what="ibv_reg_mr failed: Cannot allocate memory"),
    ),
    (
        "misc/ibvwrap.cc:160 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
        NicFault(what="port error", device="mlx5_0:1"),
    ),
    (
        "[1639] UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
        RdmaTrouble(what="Transport retry count exceeded"),
    ),
    (
        "[1038619.687627] infiniband efa_0: Failed to process command REG_MR (opcode 7) comp_status 1 err -12",
        RdmaTrouble(what="Failed to process command REG_MR"),
    ),
]

HARMLESS = [
    "NCCL WARN NET/IB : mlx5_0:1 Got async event : GID table change",
    "NCCL WARN NET/IB : mlx5_0:1 Got async event : client reregistration",
    "NCCL WARN Failed to open libibverbs.so[.1]",
    "NCCL INFO NET/IB : No device found.",
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)",
    "NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_healthy_runs_give_nothing(text):
    assert read(text) == []


def test_a_function_that_a_plugin_does_without_is_not_fatal():
    (fact,) = read("[3] configure_nvls_option:287 NCCL WARN NET/OFI Could not find ncclGetVersion symbol")
    assert not fact.fatal


def test_a_verb_that_is_tried_again_is_not_fatal():
    facts = read(
        "NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5, retrying 1/34 after 100 msec of sleep"
    )
    assert facts
    assert not any(fact.fatal for fact in facts)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("Check failed: dev_list No InfiniBand device found", "No InfiniBand device found"),
        (
            "Check failed: num_devs_with_active_port > 0 There is no active port in the system",
            "There is no active port in the system",
        ),
        ("Check failed: port_num > 0 (0 vs. 0)No active ports", "No active ports"),
        ("Check failed: !ibv_modify_qp(qp_, &attr, mask) QP to INIT failed", "QP to INIT failed"),
        ("Check failed: wc_[i].status == IBV_WC_SUCCESS Failed status", "Failed status"),
        ("Check failed: false The device mlx5_9 wasn't found", "The device mlx5_9 wasn't found"),
    ],
)
def test_what_tensorflow_checks_of_the_adapter_is_trouble_with_rdma(message, what):
    line = f"2019-11-24 15:29:02.511871: F tensorflow/contrib/verbs/rdma.cc:91] {message}"
    assert RdmaTrouble(what=what) in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "2019-11-24 15:28:20.511290: I tensorflow/contrib/verbs/rdma.cc:307] RoCE v2 is not configured for GID_INDEX 0",
        "2019-11-24 15:29:02.511871: F tensorflow/contrib/verbs/rdma.cc:1635] Check failed: s.ok() copy tensor to gpu sync",
        "2019-11-24 15:28:31.120551: I tensorflow/contrib/verbs/rdma_mgr.cc:128] Connected to remote node /job:worker/replica:0/task:0",
    ],
)
def test_the_rest_of_what_tensorflow_says_over_verbs_is_not(line):
    assert not read(line)
