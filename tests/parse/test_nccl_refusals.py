# SPDX-License-Identifier: Apache-2.0
"""What NCCL refuses or does not find, by what it warns of."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, DeviceShared, WorldSizeConflict
from keepstep.core.facts.environment import CudaMismatch, InternalFault, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.network import RdmaTrouble
from keepstep.core.facts.platform import PeerAccessFault
from keepstep.core.facts.resource import HostAllocationFailed, LimitReached
from keepstep.core.facts.sync import CollectiveMismatch
from keepstep.parse.tools.nccl import refusals as table

_WARN = "node-7:2311:2402 [1] misc/init.cc:112 NCCL WARN "


def facts(text: str) -> list[object]:
    return [
        fact
        for each in table.SIGNATURES
        if any(anchor in text for anchor in each.anchors) and (fact := each.read(text)) is not None
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Invalid config blocking attribute value -2147483648", CudaMismatch),
        ("Error: corrupted comm object detected", InternalFault),
        ("invalid device count (16) requested", WorldSizeConflict),
        ("Could not find real path of /sys/class/pci_bus/0000:21/../../0000:21:00.0", UnsupportedCombination),
        ("Invalid device count requested : 9", WorldSizeConflict),
        ("Invalid device 9 (totalnDev=8)", WorldSizeConflict),
        ("rank 4 exceeds ndev=4", WorldSizeConflict),
        ("Broadcast : invalid root 4 (root should be in the 0..4 range)", WorldSizeConflict),
        ("improper usage of ncclCommInitRank: nId = 4, nranks=2", WorldSizeConflict),
        ("nLocals = 3 should be a diviser of the number of ranks in node 0 = 8", WorldSizeConflict),
        (
            'NCCL_NVLS_ENABLE has been set to "1" and communicator has multiple ranks using the same NVML device.',
            DeviceShared,
        ),
        ("Net : No valid <IPv4_or_hostname>:<port> pair found", ClusterSpecInvalid),
        ("Net : No valid [IPv6]:port pair found", ClusterSpecInvalid),
        ("Rank 4 requires NIC 4 but that NIC is not available for rank 4", ClusterSpecInvalid),
        ('Unrecognized element token "rng" when parsing "rng,tree"', ClusterSpecInvalid),
        ("TOPO/NET : Could not force merge NICs mlx5_0. Please specify a valid string.", ClusterSpecInvalid),
        ("Error: network AWS Libfabric not found.", RdmaTrouble),
        ("Error : Network returned 0 device", RdmaTrouble),
        ("Failed to initialize any NET plugin", RdmaTrouble),
        ("NET/IB : Attempted to merge incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE", RdmaTrouble),
        ("NET/IB: OOO RQ is force enabled but AR is not enabled, which is required", RdmaTrouble),
        ("NET/IB : Can't merge net devices with different link_layer. i=0", RdmaTrouble),
        ("Unable to use GIN: Peermem is not supported, and device 4 does not support DMA-BUF.", RdmaTrouble),
        ("No transport found !", PeerAccessFault),
        ("Rank 4 has no transport for send peer 5 on channel 0/0", PeerAccessFault),
        ("[4] Error no transport for recv peer 5 on channel 0", PeerAccessFault),
        ("MNNVL is not supported on this system", PeerAccessFault),
        ("Error : ring 0 does not loop back to start (4 != 0)", InternalFault),
        ("Failed to determine local ranks rank 4 hostHash 9 pidHash 8 localRank -1", InternalFault),
        ("Internal error : tree already has 3 children (4 5 6)", InternalFault),
        ("Could not find any local path from gpu 4 to net.", InternalFault),
        ("Add PCI Link error : could not find PCI SW 4", InternalFault),
        ("Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='') : no such file", LibraryMissing),
        ("Failed to open libnvidia-ml.so.1", LibraryMissing),
        ("CUDA Driver version found is 11020. Minimum requirement is 11030", CudaMismatch),
        ("The installed CUDA driver is older than the minimum version (R465) required", CudaMismatch),
        ("Failed to malloc 67108864 bytes", HostAllocationFailed),
        ("Failed to CUDA host alloc 33554432 bytes", HostAllocationFailed),
        ("utils.cc:4 Unrecoverable error detected: malloc(size=65536) returned null.", HostAllocationFailed),
        ("UDS: Socket creation error : 24", LimitReached),
        ("Trying to send to self without a matching recv", CollectiveMismatch),
        (
            "Elastic GIN: rank 4 has 2 segments but another rank has 3; all ranks must have identical segment sizes",
            CollectiveMismatch,
        ),
        ("Blocking and nonblocking communicators are not allowed in the same group.", UnsupportedCombination),
        (
            "No algorithm/protocol available for function AllReduce with datatype ncclFloat8e4m3.",
            UnsupportedCombination,
        ),
        ("FP8 reduction support begins with sm90 capable devices.", UnsupportedCombination),
        ("cudaArch 1200 dynamic smem 233472 exceeds device/fn maxSharedMem 101376", UnsupportedCombination),
    ],
)
def test_a_warning_says_what_was_refused(text: str, kind: type) -> None:
    assert [type(fact) for fact in facts(_WARN + text)] == [kind]
    if not text.startswith("Net"):
        assert kind in [type(fact) for fact in facts(text)], "as PyTorch repeats it under 'Last error:'"


@pytest.mark.parametrize(
    "text",
    [
        "node-7:2311:2402 [1] NCCL INFO Failed to open libibverbs.so[.1]",
        "node-7:2311:2402 [1] NCCL INFO NET/IB : No device found.",
        "node-7:2311:2402 [1] NCCL INFO MNNVL is not supported on this system",
        "node-7:2311:2402 [1] NCCL INFO Could not find node of type 4 id 4",
        "node-7:2311:2402 [1] init.cc:9 NCCL WARN MIN/MAX channels 8 is larger than the limit, cap it to 4",
        "node-7:2311:2402 [1] xml.cc:9 NCCL WARN No NVML device handle. Skipping nvlink detection.",
        "node-7:2311:2402 [1] UDS: Socket creation error : 13",
    ],
)
def test_what_a_healthy_run_prints_is_no_refusal(text: str) -> None:
    assert facts(text) == []


def test_a_call_that_xla_s_nccl_refuses_without_a_word_was_meant_for_another_nccl() -> None:
    said = "INTERNAL: NCCL operation ncclAllReduce( send_buffer.opaque(), comm_, AsCudaStream(stream)) failed: invalid argument"
    hint = " (run with NCCL_DEBUG=WARN for details). Last NCCL warning(error) log entry (may be unrelated) '"
    assert [type(f) for f in facts(f"{said}{hint}'.")] == [UnsupportedCombination]
    assert not facts(f"{said}{hint}Broadcast : something else'.")
