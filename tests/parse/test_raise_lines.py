# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import RankVariableMissing
from keepstep.core.facts.data import UnevenShards
from keepstep.core.facts.resource import LoaderWorkerDied
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, NonFinite, Slowness
from keepstep.parse.tools.torch import raise_lines
from tests.parse.reading import reader

read = reader(raise_lines)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('    raise _env_error("MASTER_ADDR")', RankVariableMissing(name="MASTER_ADDR")),
        ("    raise _env_error(env_var)", RankVariableMissing()),
        (
            '    raise RuntimeError("Default process group has not been initialized, "',
            RankVariableMissing(name="the process group"),
        ),
        (
            '    raise ValueError("num_samples should be a positive integer "',
            UnevenShards(detail="a rank's dataset is empty"),
        ),
        ("    _error_if_any_worker_fails()", LoaderWorkerDied()),
        (
            "    raise RuntimeError('DataLoader worker (pid(s) {}) exited unexpectedly'.format(pids_str)) from e",
            LoaderWorkerDied(),
        ),
        (
            "    raise RuntimeError('DataLoader timed out after {} seconds'.format(self._timeout))",
            Slowness(what="loader"),
        ),
        (
            '    raise RuntimeError("unexpected EOF, expected {} more bytes. The file might be corrupted."',
            CheckpointUnreadable(why="the file ends early"),
        ),
        ("    raise RuntimeError('Error(s) in loading state_dict for {}:\\n\\t{}'.format(", CheckpointMismatch()),
        (
            '    raise ValueError("loaded state dict contains a parameter group "',
            CheckpointMismatch(detail="loaded state dict contains a parameter group"),
        ),
        (
            '    raise FloatingPointError(("Minimum loss scale reached ({}). Your loss is probably exploding. "',
            NonFinite(what="loss"),
        ),
    ],
)
def test_a_traceback_that_ends_at_the_line_that_raises_tells_what_was_raised(line: str, expected: Fact) -> None:
    assert read(line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        '    raise RuntimeError("Distributed package doesn\'t have NCCL " "built in")',
        '    raise RuntimeError("Distributed package doesn\'t have NCCL "',
    ],
)
def test_a_backend_that_is_not_built_in_is_told_by_a_literal_of_two_parts(line: str) -> None:
    (fact,) = read(line)
    assert "NCCL" in getattr(fact, "what", "")


@pytest.mark.parametrize(
    "line",
    [
        "    raise KeyError(key) from None",
        "    raise ChildFailedError(",
        "INFO: DataLoader worker (pid(s) 12, 13) started",
        "def _error_if_any_worker_fails():",
        "    with _open_zipfile_reader(opened_file) as opened_zipfile:",
    ],
)
def test_a_line_that_may_fail_in_several_ways_tells_nothing(line: str) -> None:
    assert read(line) == []
