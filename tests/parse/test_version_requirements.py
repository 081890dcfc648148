# SPDX-License-Identifier: Apache-2.0
"""Versions that packages refuse."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.parse import version_requirements as table

WORDINGS = [
    (
        "ImportError: accelerate>=0.20.1 is required for a normal functioning of this module, but found accelerate==0.19.0.",
        UnsupportedCombination,
        {},
    ),
    (
        "AssertionError: MMCV==2.2.0 is used but incompatible. Please install mmcv>=2.0.0rc4, <2.2.0.",
        UnsupportedCombination,
        {},
    ),
    (
        "ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.26.0`: Please run `pip install transformers[torch]`",
        UnsupportedCombination,
        {},
    ),
    (
        "pkg_resources.ContextualVersionConflict: (protobuf 4.21.1 (/opt/lib), Requirement.parse('protobuf<3.21'), {'tensorboard'})",
        UnsupportedCombination,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.1",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
