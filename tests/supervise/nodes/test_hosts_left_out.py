# SPDX-License-Identifier: Apache-2.0
"""Which hosts a run goes on without, what replaces them, and in which words."""

from __future__ import annotations

import pytest

from keepstep.model.cause import Cause
from keepstep.supervise.nodes.lead.hosts_left_out import OF_THE_HOST, Failure, excluded, next_world

HOSTS = {0: "a", 1: "b", 2: "c", 3: "d"}


def failure(attempt: int, cause: Cause | None, *hosts: str) -> Failure:
    return Failure(attempt=attempt, cause=cause, hosts=hosts)


@pytest.mark.parametrize("cause", list(Cause))
def test_what_the_script_or_its_data_broke_is_never_a_hosts_fault(cause: Cause) -> None:
    found = excluded([failure(attempt, cause, "b") for attempt in range(5)])
    if cause.family in ("user", "data", "sync", "numeric", "slow", "checkpoint", "compile", "config", "preemption"):
        assert not found
    if cause.family == "hardware":
        assert [each.host for each in found] == ["b"]
    assert bool(found) == (cause in OF_THE_HOST)


def test_one_failure_is_not_enough_and_two_findings_about_one_attempt_are_one() -> None:
    fault = Cause.HARDWARE_GPU_FAULT_XID_ECC
    assert not excluded([failure(0, fault, "b"), failure(0, Cause.HARDWARE_NIC_FAULT, "b"), failure(1, fault, "c")])


def test_the_history_is_told_with_the_exclusion() -> None:
    found = excluded(
        [
            failure(0, Cause.HARDWARE_GPU_FAULT_XID_ECC, "b"),
            failure(1, Cause.USER_CODE_EXCEPTION, "b"),
            failure(2, None, "b"),
        ]
    )
    assert [each.words for each in found] == [
        "b is left out: 2 failures of its own (attempt 0: a device fault; attempt 2: it went silent)"
    ]


def test_what_is_set_up_wrongly_everywhere_is_no_hosts_own_fault() -> None:
    library = Cause.ENV_MISSING_SHARED_LIBRARY
    assert not excluded([failure(0, library, "a", "b"), failure(1, library, "a", "b")])
    assert [each.host for each in excluded([failure(0, library, "b"), failure(1, library, "b")])] == ["b"]


def test_the_first_world_takes_the_first_nodes() -> None:
    assert next_world((), HOSTS, least=2, most=3).nodes == (0, 1, 2)


def test_a_spare_takes_the_place_of_an_excluded_host() -> None:
    world = next_world((0, 1, 2), HOSTS, {"b"}, least=3, most=3)
    assert world.nodes == (0, 3, 2)
    assert world.words == ("d (node 3) replaces b (node 1)",)


def test_without_a_spare_the_world_shrinks_and_says_what_that_means_for_the_batch() -> None:
    world = next_world((0, 1, 2, 3), {0: "a", 1: "b", 3: "d"}, least=3, most=4, per_node=8)
    assert world.nodes == (0, 1, 3)
    assert world.words == (
        "the world shrinks from 4 to 3 nodes, 32 to 24 ranks, because no spare replaces node 2; "
        "with the same batch per rank the global batch is 3/4 of what it was",
    )


def test_it_grows_back_when_a_node_returns() -> None:
    world = next_world((0, 1, 3), HOSTS, least=3, most=4)
    assert world.nodes == (0, 1, 3, 2)
    assert world.words[0].startswith("the world grows from 3 to 4 nodes, with c (node 2)")


def test_too_few_nodes_start_nothing() -> None:
    world = next_world((0, 1, 2), {0: "a", 2: "c"}, {"c"}, least=2, most=3)
    assert world.nodes == ()
    assert world.words == ("2 nodes are needed, and 1 can take part: a",)


def test_nothing_changes_nothing_is_said() -> None:
    assert next_world((2, 0), HOSTS, least=1, most=2) == next_world((2, 0), {0: "a", 2: "c"}, least=1, most=2)
    assert next_world((2, 0), HOSTS, least=1, most=2).words == ()
