"""Which rank sits where, and what its script is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstep.supervise.nodes.lead.placement import NodePlace, Roles, counts, seat
from keepstep.supervise.nodes.messages import Start, decode, encode
from keepstep.supervise.start.launch import Job, launches
from keepstep.supervise.start.layout import Layout


def places(*ranks: int, machines: str = "abcdefgh") -> list[NodePlace]:
    return [
        NodePlace(node=node, machine=machines[node], address=f"10.0.0.{node + 1}", ranks=each)
        for node, each in enumerate(ranks)
    ]


def seated(where: list[NodePlace], roles: Roles | None = None) -> Layout:
    roles = roles or Roles()
    ports = {
        node: list(range(1000 * (node + 1), 1000 * (node + 1) + n + 2)) for node, n in counts(where, roles).items()
    }
    return seat(where, roles, ports)


def started(layout: Layout, node: int, tmp_path) -> dict[int, dict[str, str]]:
    members = tuple(each.member for each in layout.seats if each.node == node)
    total = sum(each.member.trains for each in layout.seats)
    job = Job(command=("true",), cwd=tmp_path, members=members, total=total)
    found = launches(job, attempt=3, folder=tmp_path, exchange=tmp_path, token="t", env={}, more={}, layout=layout)
    return {launch.rank: dict(launch.env) for launch in found}


def test_ranks_are_numbered_node_after_node_and_meet_at_the_first(tmp_path):
    layout = seated(places(2, 2))
    first, second = started(layout, 0, tmp_path), started(layout, 1, tmp_path)
    assert sorted(first) == [0, 1]
    assert sorted(second) == [2, 3]
    assert {env["MASTER_ADDR"] for env in (*first.values(), *second.values())} == {"10.0.0.1"}
    assert len({env["MASTER_PORT"] for env in (*first.values(), *second.values())}) == 1
    assert [second[3][name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")] == [
        *("3", "4", "1", "2", "1")
    ]
    assert json.loads(second[2]["TF_CONFIG"])["cluster"]["worker"][2].startswith("10.0.0.2:")
    assert second[2]["JAX_COORDINATOR_ADDRESS"].startswith("10.0.0.1:")


def test_agents_on_one_machine_share_its_devices(tmp_path):
    layout = seated(places(1, 1, 1, machines="aab"))
    assert [started(layout, node, tmp_path)[node]["LOCAL_RANK"] for node in range(3)] == ["0", "1", "0"]
    assert [started(layout, node, tmp_path)[node]["LOCAL_WORLD_SIZE"] for node in range(3)] == ["2", "2", "1"]


def test_servers_go_round_the_nodes_and_the_evaluator_is_beside_the_chief():
    layout = seated(places(1, 1), Roles(ps=3, evaluator=True))
    assert [(each.role, each.index, each.node) for each in layout.seats] == [
        ("chief", 0, 0),
        ("worker", 0, 1),
        ("ps", 0, 0),
        ("ps", 1, 1),
        ("ps", 2, 0),
        ("evaluator", 0, 0),
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 3), st.booleans())
def test_every_rank_has_a_port_of_its_own_and_the_layout_travels(ranks, ps, evaluator):
    layout = seated(places(*ranks), Roles(ps=ps, evaluator=evaluator))
    assert [each.rank for each in layout.seats] == list(range(sum(ranks) + ps + evaluator))
    taken = [(each.node, each.port) for each in layout.seats]
    taken += [(0, layout.store_port), (0, layout.coordinator_port)]
    assert len(set(taken)) == len(taken)
    start = Start(attempt=1, layout=layout)
    assert decode(encode(start)) == start


@pytest.mark.parametrize("count", [1, 3])
def test_one_node_is_told_of_no_group_where_there_is_only_one(count, tmp_path):
    env = started(seated(places(count)), 0, tmp_path)[0]
    assert "GROUP_RANK" not in env
