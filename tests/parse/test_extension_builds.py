# SPDX-License-Identifier: Apache-2.0
"""Extensions that could not be built."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch, LibraryMissing
from keepstep.core.facts.sync import SharedStateRace
from keepstep.parse.tools.python import extension_builds as table

WORDINGS = [
    ('  File "/opt/venv/lib/python3.12/site-packages/torch/utils/file_baton.py", line 50 in wait', SharedStateRace, {}),
    ("    wait (torch/utils/file_baton.py:43)", SharedStateRace, {}),
    (
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        CudaMismatch,
        {},
    ),
    (
        "error: #error -- unsupported GNU version! gcc versions later than 11 are not supported!",
        CudaMismatch,
        {},
    ),
    (
        "RuntimeError: Error building extension 'cpu_adam'",
        CudaMismatch,
        {"what": "the extension 'cpu_adam' could not be built"},
    ),
    (
        "fatal error: cusparse.h: No such file or directory",
        LibraryMissing,
        {"name": "cusparse.h"},
    ),
    (
        "RuntimeError: Ninja is required to load C++ extensions",
        LibraryMissing,
        {"name": "ninja"},
    ),
    (
        "subprocess.CalledProcessError: Command '['which', 'c++']' returned non-zero exit status 1.",
        LibraryMissing,
        {"name": "c++"},
    ),
    (
        "RuntimeError: apex.optimizers.FusedAdam requires cuda extensions",
        LibraryMissing,
        {"name": "apex"},
    ),
    (
        "CUDA Setup failed despite GPU being available. Please run the following command",
        CudaMismatch,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "Loading extension module fused_adam...",
    "ninja: no work to do.",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
