# SPDX-License-Identifier: Apache-2.0
"""``keepstep run`` as the command of pods: real processes under the environment of Kubernetes, without a Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.supervise.engines.kubernetes import REPEATS
from keepstep_lab import hosts
from tests.supervise.nodes.kubernetes.pods import Pods, ended_by_eviction, wait_for

MISSING = hosts.missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path, machines=3)
    yield made
    made.close()


@pytest.mark.slow
def test_a_killed_rank_comes_back_in_the_same_pods(pods: Pods) -> None:
    (pods.folder / "kill-0-0-1").touch()
    first, second = pods.start(0, 0), pods.start(1, 1)
    pods.go(0, 0, 1)
    pods.go(1, 0, 1)
    assert (first.ended(), second.ended()) == (0, 0), pods.words
    assert "rank 1 was killed" in first.words or "SIGKILL" in first.words, first.words


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("index", [0, 1])
def test_an_eviction_is_one_event_for_all_pods_and_asks_for_a_new_start(pods: Pods, index: int) -> None:
    both = pods.start(0, 0), pods.start(1, 1)
    pods.started(0, 0, 1)
    pods.evict(both[index])
    assert ended_by_eviction(*both), pods.words
    assert pods.saved() == ["saved-0-0-0", "saved-0-0-1"]
    again = pods.start(0, 2 if index == 0 else 0, life=1), pods.start(1, 2 if index == 1 else 1, life=1)
    pods.go(0, 0, 1, life=1)
    assert [pod.ended() for pod in again] == [0, 0], pods.words


@pytest.mark.slow
@pytest.mark.long
def test_a_pod_that_is_gone_without_notice_is_awaited_and_the_others_stay(pods: Pods) -> None:
    first, second = pods.start(0, 0), pods.start(1, 1)
    pods.started(0, 0, 1)
    pods.kill(second)
    third = pods.start(1, 2)
    pods.go(1, 0, 1)
    assert (first.ended(), third.ended()) == (0, 0), pods.words
    assert "train-1, with rank 1, is gone" in first.words, first.words


@pytest.mark.slow
@pytest.mark.long
def test_a_spare_pod_takes_the_place_of_one_that_never_comes_back(pods: Pods) -> None:
    """As where the machine is unreachable: its pod stays in Terminating, and the Job starts no other."""
    pods.spares = 1
    first, second = pods.start(0, 0), pods.start(1, 1)
    pods.started(0, 0, 1)
    third = pods.start(2, 2)
    wait_for(lambda: "spare: train-2" in first.words, "the spare pod", pods)
    pods.kill(second)
    pods.go(1, 0, 1)
    assert (first.ended(), third.ended()) == (0, 0), pods.words
    assert "train-2 (node 2) replaces train-1 (node 1)" in first.words


@pytest.mark.slow
@pytest.mark.long
def test_a_new_pod_0_leads_again_and_goes_on_with_the_next_attempt(pods: Pods) -> None:
    first, second = pods.start(0, 0), pods.start(1, 1)
    pods.started(0, 0, 1)
    pods.kill(first)
    third = pods.start(0, 2)
    pods.go(1, 0, 1)
    assert (third.ended(), second.ended()) == (0, 0), pods.words
    assert (pods.folder / "started-0-1-1").read_text() == hosts.address(2), "rank 1 was told where rank 0 is now"


@pytest.mark.slow
@pytest.mark.long
def test_what_would_fail_anywhere_fails_the_job(pods: Pods) -> None:
    (pods.folder / "raise").touch()
    both = pods.start(0, 0), pods.start(1, 1)
    pods.go(0, 0, 1)
    assert [pod.ended() for pod in both] == [REPEATS, REPEATS], pods.words
    assert "the labels do not fit the model" in both[0].words
