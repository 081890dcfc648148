# SPDX-License-Identifier: Apache-2.0
"""The words of NVSHMEM."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, VersionConflict
from keepstep.core.facts.network import RdmaTrouble
from keepstep.core.facts.platform import PeerAccessFault
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.parse.tools.nccl import nvshmem
from tests.parse.reading import reader

BUILD = "/dvs/p4/build/sw/rel/gpgpu/toolkit/r13.0/main_nvshmem/src"


@pytest.mark.parametrize(
    "text, kind, fields",
    [
        (
            f"{BUILD}/modules/transport/ibgda/ibgda.cpp:2234: NULL value Unable to create ah.",
            RdmaTrouble,
            {"what": "NVSHMEM: Unable to create ah.", "fatal": True},
        ),
        (f"{BUILD}/modules/transport/ibgda/ibgda.cpp:2966: non-zero status: 7 create DCT share err.", RdmaTrouble, {}),
        (
            f"{BUILD}/modules/transport/ibrc/ibrc.cpp:411: non-zero status: 22 ibv_modify_qp failed ",
            RdmaTrouble,
            {"what": "NVSHMEM: ibv_modify_qp failed"},
        ),
        (
            "/w/src/host/transport/transport.cpp:nvshmemi_transport_init:287: Unable to initialize any transports. returning error.",
            RdmaTrouble,
            {"fatal": True},
        ),
        ("WARN: init failed for remote transport: ibrc", RdmaTrouble, {"device": "ibrc", "fatal": False}),
        (
            "/w/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA",
            RdmaTrouble,
            {"fatal": False},
        ),
        ("/w/nvshmem/src/host/transport/transport.cpp:400: non-zero status: 7 connect EPS failed ", RdmaTrouble, {}),
        (
            "bootstrap_uid.cpp:234: mismatch in rank count from procs 8 : 16",
            WorldSizeConflict,
            {"seen": "8", "expected": "16"},
        ),
        ("UID Bootstrap versions not compatible between PEs", VersionConflict, {"component": "NVSHMEM"}),
        (
            "NVSHMEM device library version does not match with NVSHMEM host library version",
            CudaMismatch,
            {},
        ),
        (
            "Bootstrap unable to load 'nvshmem_bootstrap_uid.so.3'",
            LibraryMissing,
            {"name": "nvshmem_bootstrap_uid.so.3"},
        ),
        ("/w/topo.cpp:210: [GPU 0] Peer GPU 3 is not accessible, exiting ... ", PeerAccessFault, {}),
        ("/w/src/host/mem/mem_heap.cpp:812: non-zero status: 2 cuMemCreate failed ", DeviceMemoryExhausted, {}),
    ],
)
def test_says(text: str, kind: type, fields: dict[str, object]) -> None:
    facts = [each for each in reader(nvshmem)(text) if isinstance(each, kind)]
    assert facts, text
    assert all(getattr(facts[0], name) == value for name, value in fields.items()), facts[0]


@pytest.mark.parametrize(
    "text",
    [
        "NVSHMEM v3.4.5",
        "NVSHMEM INFO IBGDA Disabled by the environment.",
        "Enumerated IB devices in the system - device id=0 (of 8), name=mlx5_0, num_ports=1",
    ],
)
def test_an_ordinary_line_gives_nothing(text: str) -> None:
    assert not list(reader(nvshmem)(text))
