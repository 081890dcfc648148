# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.environment import InternalFault, UnsupportedCombination
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.programs import unsupported


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = unsupported.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "RuntimeError: no support for _allgather_base in MPI process group",
            UnsupportedCombination(what="no support for _allgather_base in MPI process group"),
        ),
        (
            "NotImplementedError: Using multiple TPUs in a single session is not yet implemented",
            UnsupportedCombination(what="Using multiple TPUs in a single session is not yet implemented"),
        ),
        (
            "NotImplementedError: `ParameterServerStrategy` currently only works with the tf.Estimator API",
            UnsupportedCombination(what="`ParameterServerStrategy` currently only works with the tf.Estimator API"),
        ),
        (
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was saved during the original",
            UnsupportedCombination(
                what="activation checkpointing, and a forward pass that differs when it is run again (as when parameters are sharded)"
            ),
        ),
        (
            "torch._dynamo.exc.InternalTorchDynamoError: AttributeError: x",
            InternalFault(what="torch._dynamo.exc.InternalTorchDynamoError: AttributeError: x"),
        ),
        (
            'RuntimeError: x INTERNAL ASSERT FAILED at "a.cpp":12',
            InternalFault(what='INTERNAL ASSERT FAILED at "a.cpp":12'),
        ),
        ("RuntimeError: TT_ASSERT @ chip.cpp:241: a < b", InternalFault(what="TT_ASSERT @ chip.cpp:241: a < b")),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "FP8 is not supported on this device, using BF16",
        "this feature does not support DDP yet, skipped",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


def test_an_async_save_without_a_backend_for_the_cpu(read, holds):
    text = "AssertionError: A CPU backend must be enabled for async save; try initializing process group with 'cpu:gloo,cuda:nccl'"
    assert holds(read(unsupported, text), UnsupportedCombination)
