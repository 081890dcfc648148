# SPDX-License-Identifier: Apache-2.0
"""Real jobs of each framework in which one rank has a bad batch, leaves, or is to be ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keepstep.sources.host.ports import free_ports
from tests.guard import torch_ranks
from tests.guard.torch_ranks import Ranks

SCRIPT = Path(__file__).with_name("together_training.py")
FRAMEWORKS = [
    pytest.param("torch", marks=pytest.mark.frameworks("torch")),
    pytest.param("jax", marks=[pytest.mark.frameworks("jax"), pytest.mark.long]),
    pytest.param("tensorflow", marks=[pytest.mark.frameworks("tensorflow"), pytest.mark.long]),
]
pytestmark = pytest.mark.slow


@contextmanager
def ranks(folder: Path, framework: str, *arguments: str, **env: str) -> Iterator[Ranks]:
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    for rank in range(2):
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        (folder / f"tf_config-{rank}").write_text(json.dumps(task))
    with torch_ranks.ranks(folder, framework, *arguments, script=SCRIPT, TF_CPP_MIN_LOG_LEVEL="2", **env) as running:
        yield running


def steps(run: Ranks) -> list[tuple[str, ...]]:
    """What each rank's weights were in the end, and after which steps."""
    return re.findall(r"ended with (\w+) after (.*)", run.logs())


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("mode", ["on", "", pytest.param("off", marks=pytest.mark.long)])
def test_a_bad_batch_on_one_rank_is_skipped_on_all(tmp_path: Path, framework: str, mode: str) -> None:
    with ranks(tmp_path, framework, KEEPSTEP=mode) as run:
        assert run.ended() == [0, 0], run.logs()
    first, second = steps(run)
    assert first == second
    assert first[1] == "[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]"


@pytest.mark.frameworks("torch")
def test_without_the_question_the_other_rank_hangs(tmp_path: Path) -> None:
    """The fault that it is for: rank 1 skips its step alone, ends one step early, and rank 0 waits for it."""
    with ranks(tmp_path, "torch", "--alone", "--linger") as run:
        run.wait_for(lambda: steps(run))
        assert [each[1] for each in steps(run)] == ["[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]"]
        assert run.processes[0].poll() is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_rank_that_leaves_does_not_let_the_other_wait(tmp_path: Path, framework: str) -> None:
    with ranks(tmp_path, framework, "--do", "leave", "--wait", "100000") as run:
        run.wait_for(lambda: "rank 1 left the training" in run.log(0))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_sigterm_to_one_rank_stops_both_after_the_same_step(tmp_path: Path, framework: str) -> None:
    with ranks(tmp_path, framework, "--do", "stop", "--steps", "1000") as run:
        assert run.ended() == [0, 0], run.logs()
    first, second = steps(run)
    assert first == second
    assert first[1].count(",") < 998
