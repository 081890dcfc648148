# SPDX-License-Identifier: Apache-2.0
"""What XLA and the TPU runtime say of a program."""

from __future__ import annotations

import pytest

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.model.facts.environment import InternalFault, UnsupportedCombination
from keepstep.model.facts.resource import AllocationAbsurd, DeviceMemoryExhausted
from keepstep.parse.tools.tpu import programs as table
from tests.parse.reading import reader

facts = reader(table)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Total hbm usage >= 11.47G:", DeviceMemoryExhausted),
        ("Program hbm requirement 63.80G:", DeviceMemoryExhausted),
        ("  Largest program allocations in hbm:", DeviceMemoryExhausted),
        ("Infeed shape mismatch; expected [8,128], got [4,128]", ShapeMismatch),
        (
            "Invalid argument: Infeed shape mismatch for tuple element 65; expected [4,200], got [4,10000]",
            ShapeMismatch,
        ),
        ("Infeed dtype mismatch.", DtypeMismatch),
        ("Infeed dtype mismatch for tuple element 2; expected int32, got int64", DtypeMismatch),
        (
            "ValueError: XLA compiled computations cannot be nested, (operator name: replica_1/input_0)",
            UnsupportedCombination,
        ),
        ("ValueError: TPU computations cannot be nested on op (name: x)", UnsupportedCombination),
        ("Cannot nest gradient colocation operations outside compilation", UnsupportedCombination),
        ("Non-resource Variables are not supported inside XLA computations (operator name: v)", UnsupportedCombination),
        (
            "is OK (FAILED_PRECONDITION: TPU platform already registered for platform hardware version e0897fcce",
            InternalFault,
        ),
        (
            "F0102 10:00:00 7 x.cc:10] Check failed: tpu::Factory::Register(k, v) is OK (ALREADY_EXISTS: k)",
            InternalFault,
        ),
        ("operation gpuDeviceGetAttribute( &major, A, device) failed: CUDA_ERROR_NOT_INITIALIZED", InternalFault),
        ("tcmalloc: large alloc 113702387720192 bytes == (nil) @  0x7f61ae7be680", AllocationAbsurd),
        ("    assert xm.xrt_world_size() == args.distributed_world_size\nAssertionError", WorldSizeConflict),
        ("    assert len(jax.devices()) == 8\n           ^^^^^^^^^^^\nAssertionError: need 8", WorldSizeConflict),
    ],
)
def test_what_is_said_of_a_program(text: str, kind: type[Fact]) -> None:
    assert [type(f) for f in facts(text)] == [kind]
