# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to agents, leaders and the network: never two attempts at once, and the run goes on.

``KEEPSTEP_DRAWS`` sets how many cases are tried; `make test` tries fewer.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from keepstep.supervise.nodes.agent.lease import KILL_S, LEASE_S, LONGEST_S
from tests.supervise.nodes.simulated import TICK_S, Simulation

DRAWS = int(os.environ.get("KEEPSTEP_DRAWS", "30"))
TERM_S = 4.0
SAFE_S = LEASE_S + KILL_S
MANY = settings(
    max_examples=DRAWS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a failing case is printed as it is: shrinking takes minutes
)

Fault = tuple[str, float, int, float]
"""What, when, on which node (modulo), and for how long."""
KINDS = (
    *("cut in", "cut out", "cut both", "cut in", "cut out", "cut both"),
    *("freeze", "crash", "break", "twin", "rank", "leader crash", "leader sleeps", "deposed"),
)
TIMES = st.floats(0.0, 40.0) | st.integers(0, 40).map(float)
LENGTHS = st.sampled_from((0.1, 1.0, 2.2, 5.0, 7.9, 8.1, 11.0, 14.0)) | st.floats(0.05, 25.0)
WHERE = (TIMES, st.integers(0, 15), LENGTHS)
FAULTS = st.lists(st.tuples(st.sampled_from(KINDS), *WHERE), max_size=8)


def put(world: Simulation, fault: Fault) -> None:
    """Arrange for a fault to happen."""
    what, at, where, length = fault
    node = where % world.nodes
    does = {
        "freeze": lambda: world.sleep(world.agents[node], length),
        "crash": lambda: world.crash(node, min(length, 6.0)),
        "break": lambda: world.break_connection(node),
        "twin": lambda: world.twin(1),  # of one node only: a leader can learn from the others what its first agent runs
        "rank": lambda: world.fail_rank(node),
        "leader crash": lambda: world.crash_leader(min(length, 6.0), node),
        "leader sleeps": lambda: world.sleep(world.leader, length),
        "deposed": lambda: world.new_leader(node) if world.term_s is not None else None,
    }
    kind, _, way = what.partition(" ")
    world.after(at, (lambda: world.cut(node, way, length)) if kind == "cut" else does[what])


@MANY
@given(
    nodes=st.integers(2, 16),
    seed=st.integers(0, 2**32),
    faults=FAULTS,
    slowest_s=st.sampled_from((0.002, 0.05, 0.4, 3.0)),
    dropped=st.sampled_from((0.0, 0.0, 0.1, 0.4)),
    term_s=st.sampled_from((None, TERM_S)),
    late_s=st.sampled_from((5.0, 60.0)),
    lease_s=st.sampled_from((LEASE_S, LEASE_S, 12.0)),
    longest_s=st.sampled_from((None, LONGEST_S)),
)
def test_never_two_attempts_at_once(
    nodes: int,
    seed: int,
    faults: list[Fault],
    slowest_s: float,
    dropped: float,
    term_s: float | None,
    late_s: float,
    lease_s: float,
    longest_s: float | None,
) -> None:
    """Also with messages that take seconds, or get lost. The simulation itself raises if it happens."""
    options = {"term_s": term_s, "late_s": late_s, "lease_s": lease_s, "longest_s": longest_s}
    world = Simulation(nodes, seed, slowest_s=slowest_s, dropped=dropped, **options)
    for fault in faults:
        put(world, fault)
    world.run(max((at + length for _, at, _, length in faults), default=0.0) + 20.0)


@MANY
@given(
    nodes=st.integers(2, 16),
    seed=st.integers(0, 2**32),
    faults=st.lists(
        st.tuples(st.sampled_from(("cut in", "cut out", "cut both", "freeze", "break", "rank")), *WHERE), max_size=6
    ),
    crashes=st.lists(st.tuples(TIMES, st.floats(0.05, 6.0)), min_size=1, max_size=3),
)
def test_a_leader_that_is_started_again_never_makes_two_attempts_run_at_once(
    nodes: int, seed: int, faults: list[Fault], crashes: list[tuple[float, float]]
) -> None:
    """It is always on node 0, as with ``--meet``, and does not know that it is not the first."""
    world = Simulation(nodes, seed, unsure=True)
    for fault in faults:
        put(world, fault)
    for at, down_s in crashes:
        world.after(at, lambda down_s=down_s: world.crash_leader(down_s, 0))
    well = max((at + length for _, at, _, length in faults), default=0.0)
    world.run(max(well, 46.0) + 2 * SAFE_S + 2.0)
    assert world.is_whole(), (world.starts, world.leader.attempt, world.living)


@MANY
@given(nodes=st.integers(2, 16), seed=st.integers(0, 2**32), faults=FAULTS, term_s=st.sampled_from((None, TERM_S)))
def test_once_all_is_well_an_attempt_runs_again(
    nodes: int, seed: int, faults: list[Fault], term_s: float | None
) -> None:
    world = Simulation(nodes, seed, term_s=term_s)
    for fault in faults:
        put(world, fault)
    well = max((at + length for _, at, _, length in faults), default=0.0)
    world.run(well + (term_s or 0.0) + (5.0 if term_s else 0.0) + SAFE_S + 2.0)
    assert world.starts
    assert world.is_whole(), (world.starts, world.leader.attempt, world.living)


@MANY
@given(
    nodes=st.integers(2, 16),
    seed=st.integers(0, 2**32),
    cuts=st.lists(
        st.tuples(st.integers(0, 15), st.sampled_from(("in", "out", "both")), st.floats(0.1, 5.0), st.floats(0, 4.0)),
        min_size=1,
        max_size=4,
    ),
)
def test_a_cut_of_five_seconds_ends_nothing(nodes: int, seed: int, cuts: list[tuple[int, str, float, float]]) -> None:
    """One after the other, each with a moment to recover, of one node or of the leader's."""
    world = Simulation(nodes, seed)
    world.run(4.0)
    assert world.is_whole()
    begun = len(world.starts)
    for node, way, length, later in cuts:
        world.run(world.now + later)
        world.cut(node % nodes, way, length)
        world.run(world.now + length + 4.0)
    world.run(world.now + 15.0)
    assert world.is_whole()
    assert len(world.starts) == begun
    assert not world.ends


@MANY
@given(
    nodes=st.integers(2, 16),
    seed=st.integers(0, 2**32),
    node=st.integers(1, 15),
    how=st.sampled_from(("cut out", "cut both", "freeze", "crash")),
    at=st.floats(0.0, 2.0),
)
def test_a_silent_node_is_named_within_three_seconds(nodes: int, seed: int, node: int, how: str, at: float) -> None:
    world, node = Simulation(nodes, seed), 1 + node % (nodes - 1)
    world.run(4.0 + at)
    assert not world.named
    put(world, (how, 0.0, node, 6.0))
    world.run(world.now + 3.0)
    assert [who for _, who in world.named] == [node]


@pytest.mark.parametrize("way", ["in", "out", "both"])
def test_a_long_cut_ends_the_attempt_and_the_others_go_on(way: str) -> None:
    world = Simulation(4, 7)
    world.run(4.0)
    begun = len(world.starts)
    world.cut(2, way, 60.0)
    world.run(world.now + SAFE_S + 5.0)
    assert world.is_whole()
    assert 2 not in world.leader.parts
    assert len(world.starts) == begun + 1
    world.run(90.0)
    assert world.is_whole()
    assert 2 in world.leader.membership.spares(world.now + world.leader.skew, needed=3)


@MANY
@given(nodes=st.integers(2, 16), seed=st.integers(0, 2**32), node=st.integers(1, 15), late=st.floats(-0.1, 0.1))
def test_a_start_that_is_lost_with_a_connection_ends_nothing(nodes: int, seed: int, node: int, late: float) -> None:
    """Around the first start: before it is sent, while it is under way, and just after it arrived."""
    world = Simulation(nodes, seed)
    while not world.starts:
        world.run(world.now + TICK_S / 10)
    begun = world.starts[0]
    world = Simulation(nodes, seed)
    world.after(begun + late, lambda: world.break_connection(node % nodes))
    world.run(begun + 10.0)
    assert world.is_whole() and not world.ends
    assert world.starts == [begun] or late < 0


def test_starts_are_sent_again() -> None:
    worlds = [Simulation(8, seed) for seed in range(20)]
    for world in worlds:
        while not world.starts:
            world.run(world.now + TICK_S / 10)
        world.break_connection(3)
        world.run(world.now + 10.0)
        assert world.is_whole() and len(world.starts) == 1
    assert sum(world.again for world in worlds) > 10
