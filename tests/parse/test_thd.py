# SPDX-License-Identifier: Apache-2.0
"""Errors of PyTorch's first distributed package."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, DuplicateMember, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.network import ConnectFailed, NameUnresolved, RendezvousTimeout
from keepstep.parse.tools.torch import thd
from tests.parse.reading import reader

_AT = " at /pytorch/torch/lib/THD/process_group/General.cpp:17"


read = reader(thd)


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        ("RuntimeError: more than one node have assigned same rank", DuplicateMember, {}),
        ("RuntimeError: two processes (10.0.0.1, 10.0.0.2) reported a rank of 1", DuplicateMember, {"member": "1"}),
        ("RuntimeError: worker's rank(4) is outof range: [0, 3]", WorldSizeConflict, {"seen": "4", "expected": "3"}),
        (
            "RuntimeError: failed to read the MASTER_PORT environmental variable; maybe you forgot to set it?",
            RankVariableMissing,
            {"name": "MASTER_PORT"},
        ),
        (
            "RuntimeError: rank is not set but it is required for env:// init method",
            RankVariableMissing,
            {"name": "rank"},
        ),
        (
            "RuntimeError: world_size is not set - it is required for `tcp://` init methods with this backend",
            RankVariableMissing,
            {"name": "world_size"},
        ),
        (
            "RuntimeError: rank specified both as an environmental variable and to the initializer",
            ClusterSpecInvalid,
            {},
        ),
        ("RuntimeError: could not establish connection with other processes", ConnectFailed, {}),
        ("RuntimeError: waiting for processes to connect has timed out", RendezvousTimeout, {}),
        ("RuntimeError: invalid init address", NameUnresolved, {}),
        (
            "RuntimeError: the distributed GLOO backend is not available; try to recompile the THD package with gloo support",
            CudaMismatch,
            {},
        ),
    ],
)
def test_a_message_is_one_fact(line, kind, fields):
    (fact,) = read(line + _AT)
    assert isinstance(fact, kind)
    assert {name: getattr(fact, name) for name in fields} == fields


@pytest.mark.parametrize(
    "line",
    [
        "rank 0 of world_size 2 is set",
        "INFO: all processes connected",
        "the gloo backend is available",
    ],
)
def test_ordinary_lines_say_nothing(line):
    assert read(line) == []
