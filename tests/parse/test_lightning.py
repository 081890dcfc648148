# SPDX-License-Identifier: Apache-2.0
"""What Lightning says."""

from __future__ import annotations

import pytest

from keepstep.model.facts.config import RankVariableMissing, WorldSizeConflict
from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.sync import ForkOrThread
from keepstep.parse.tools.trainers import lightning as table

FURTHER = [
    (
        "MisconfigurationException: You requested GPUs: [0, 1]\n     But your machine only has: [0]",
        WorldSizeConflict,
        {"expected": "[0, 1]", "seen": "[0]"},
    ),
    ("But your machine only has: [0]", WorldSizeConflict, {"seen": "[0]"}),
    (
        "RuntimeError: You set `--ntasks=2` in your SLURM bash script, but this variable is not supported. HINT: Use `--ntasks-per-node=2` instead.",
        WorldSizeConflict,
        {"seen": "2"},
    ),
    (
        "AssertionError: random port can only be called from single node training",
        RankVariableMissing,
        {"name": "MASTER_PORT"},
    ),
    (
        "KeyError: Cannot determine world size. Environment variable `JSM_NAMESPACE_SIZE` not found.",
        RankVariableMissing,
        {"name": "JSM_NAMESPACE_SIZE"},
    ),
    ("MisconfigurationException: No supported gpu backend found!", CudaMismatch, {}),
    (
        "RuntimeError: Lightning can't create new processes if CUDA is already initialized. Did you manually",
        ForkOrThread,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
