# SPDX-License-Identifier: Apache-2.0
"""Versions that packages refuse."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.parse.tools.python import version_requirements as table

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
    ("RuntimeError: Building a device_mesh requires to have torch>=2.2.0", UnsupportedCombination, {}),
    ("OSError: Distributed checkpointing requires `torch>=2.7`.", UnsupportedCombination, {}),
    ("RuntimeError: P2p send/recv requires NCCL >= 2.7.4. Got '2.4.8'.", UnsupportedCombination, {}),
    (
        "RuntimeError: Torch version must be 2.5 or higher to use symmetric memory. Current version: 2.3.1",
        UnsupportedCombination,
        {},
    ),
    (
        "AssertionError: Only Transformer-Engine version >= 1.0.0 supports context parallelism!",
        UnsupportedCombination,
        {},
    ),
    (
        "ValueError: Due to a serious vulnerability issue in `torch.load`, we now require users to upgrade torch to at least v2.6 in order to use",
        UnsupportedCombination,
        {},
    ),
    (
        "RuntimeError: Current torch version does not have all_reduce_coalesced api (torch.__version__: 1.9.0)",
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
