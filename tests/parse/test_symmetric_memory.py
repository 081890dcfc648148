# SPDX-License-Identifier: Apache-2.0
"""The words of PyTorch's symmetric memory."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import DeviceShared
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.platform import PeerAccessFault
from keepstep.core.facts.sync import CollectiveTimeout
from keepstep.parse.tools.torch import symmetric_memory
from tests.parse.reading import reader


@pytest.mark.parametrize(
    "text, kind, fields",
    [
        (
            "RuntimeError: CUDASymmetricMemoryAllocator::rendezvous: detected allocations from overlapping devices from different ranks.",
            DeviceShared,
            {},
        ),
        (
            "RuntimeError: CUDASymmetricMemory::rendezvous: ranks have mismatched NVLink clique_ids. All ranks using fabric handles",
            PeerAccessFault,
            {},
        ),
        (
            "RuntimeError: CUDA driver error: invalid resource handle. Rank 2 (host: node-1, device: 2, fabric_info: {clique_id: 0})"
            " failed to import memory from rank 5 (host: node-2, device: 1, NCCL_MNNVL_CLIQUE_ID: unset).",
            PeerAccessFault,
            {"rank": 2},
        ),
        ("RuntimeError: Failed to send fd: No such file or directory", UnsupportedCombination, {}),
        (
            "RuntimeError: CUDASymmetricMemory requires PYTORCH_C10_DRIVER_API_SUPPORTED to be defined",
            UnsupportedCombination,
            {"what": "CUDASymmetricMemory requires PYTORCH_C10_DRIVER_API_SUPPORTED"},
        ),
        (
            "[FATAL] CUDASymmetricMemory::wait_signal rank 3 failed to receive signal from rank 1 on channel 0 after 100 microseconds",
            CollectiveTimeout,
            {"rank": 3, "op": "wait_signal"},
        ),
    ],
)
def test_says(text: str, kind: type, fields: dict[str, object]) -> None:
    facts = [each for each in reader(symmetric_memory)(text) if isinstance(each, kind)]
    assert facts, text
    assert all(getattr(facts[0], name) == value for name, value in fields.items()), facts[0]


def test_an_ordinary_line_gives_nothing() -> None:
    assert not list(reader(symmetric_memory)("CUDASymmetricMemoryAllocator::alloc: has_fabric_support 0"))
