# SPDX-License-Identifier: Apache-2.0
"""Ascend's collectives."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.network import ConnectFailed, PortTaken, RendezvousTimeout, Why
from keepstep.core.facts.platform import DeviceFault, NicFault
from keepstep.core.facts.resource import Contention, DeviceMemoryExhausted
from keepstep.core.facts.sync import CollectiveTimeout, RanksMissing
from keepstep.parse.tools.other_devices import hccl


@pytest.mark.parametrize(
    "text, kind, fields",
    [
        ("EI0002: The wait execution of the Notify register times out.", CollectiveTimeout, {"op": "HCCL"}),
        (
            "EI0006: Getting socket times out. Reason: Remote Rank did not send the data",
            ConnectFailed,
            {"why": Why.TIMED_OUT},
        ),
        (
            "EJ0001: Failed to initialize the HCCP process. Reason: Maybe the last training process is running.",
            Contention,
            {},
        ),
        (
            "EJ0001: 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process. Reason: Maybe the last",
            Contention,
            {},
        ),
        ("EJ0003: [PID: 35532] Failed to bind the IP port. Reason: it has been bound already", PortTaken, {}),
        (
            "EE1002: 2024-09-03-16:50:00.041.231 Stream synchronize timeout. rtDeviceSynchronize execute failed",
            CollectiveTimeout,
            {"op": "HCCL"},
        ),
        (
            "[PID: 210907] 2026-04-09-21:56:40.384.694 Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE module.",
            DeviceMemoryExhausted,
            {},
        ),
        (
            "2026-08-12 Communication_Error_Get_Socket(EI0006): Getting socket times out.",
            ConnectFailed,
            {"why": Why.TIMED_OUT},
        ),
        ("EJ0002: The network port is down.", NicFault, {}),
        (
            "RuntimeError: npuSynchronizeDevice:x/NPUStream.cpp:435 NPU function error: aclrtSynchronizeDevice, error code is 507046",
            CollectiveTimeout,
            {"op": "HCCL"},
        ),
        ("RuntimeError: NPU function error: aclInit(nullptr), error code is 507899", DeviceFault, {"hardware": True}),
        ("RuntimeError: Failed to find function HcclCommInitRootInfoConfig", CudaMismatch, {}),
        (
            "[2717288][HcclSocket][Listen] socket type[1], listen on ip[192.168.20.160] and specific port[16666] fail. Please check the port",
            PortTaken,
            {"port": 16666},
        ),
        (
            "Communication_Error_Bind_IP_Port(EI0019): Failed to enable listening for the host network adapter socket."
            "Reason: The IP address 192.168.1.100 and port 50001 have already been bound.",
            PortTaken,
            {"port": 50001},
        ),
        ("host nic listen start failed, port[60000], return[11][FUNC:StartListenSocket]", PortTaken, {"port": 60000}),
        (
            'TopoDetect ERROR occur !!! fault_type[1], fault_info["Failed to connect agent[1,3,5,7,]"]',
            RanksMissing,
            {"missing": (1, 3, 5, 7)},
        ),
        ("[RanktableDetect]topo exchange server get socket timeout! timeout[120 s]", RendezvousTimeout, {}),
        ("TopoExchangeAgent: connect server[127.10.0.1 : 60000] failed", ConnectFailed, {"peer": "127.10.0.1"}),
        ("[Wait][LinkEstablish]wait socket establish timeout, role[1] rank[12] timeout[120]", ConnectFailed, {}),
        (
            "npuSynchronizeDevice:build/NPUStream.cpp:370 NPU error, error code is 507015.",
            DeviceFault,
            {"hardware": False},
        ),
    ],
)
def test_the_words_give_the_fact(text, kind, fields, read, holds):
    assert holds(read(hccl, text), kind, **fields)


def test_an_ordinary_line_gives_nothing(read):
    assert read(hccl, "[INFO] HCCL communicator of 8 ranks is ready") == []
