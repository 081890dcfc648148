# SPDX-License-Identifier: Apache-2.0
"""What NCCL's watchdogs print on a mesh, followed through its groups to the rank that all of them wait for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.sync import CollectiveProgress
from keepstep.model.identity import Rank
from keepstep.rules.sync._waiting import entered
from tests.rules.explained import findings
from tests.story.test_wait_graph import Skipping, World, skipping, worlds

WATCHDOG = "[E1114 10:22:01.000 ProcessGroupNCCL.cpp:632]"


def status(rank: int, group: str, within: int, enqueued: int, completed: int, *, of: int = 4) -> str:
    """A rank's watchdog says how far one of its groups came."""
    if enqueued > completed:
        timed = (
            f"[rank{rank}]:{WATCHDOG} [PG {group} Rank {within}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum={completed + 1}, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for "
            "600010 milliseconds before timing out.\n"
        )
        whose = "this local rank"
    else:
        timed, whose = "", f"rank {of}"
    return timed + (
        f"[rank{rank}]:{WATCHDOG} [PG {group} Rank {within}] Received a dump signal due to a collective timeout from "
        f"{whose} and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, "
        f"last completed NCCL work: {completed}.\n"
    )


def mesh(named: bool) -> dict[str, str]:
    """4 x 2 ranks. Rank 5 did not join its tensor group's fourth collective; 4 waits there, 0, 2 and 6 for 4."""
    logs = {}
    for rank in range(8):
        data, tensor = rank % 2, rank // 2
        dp = f"ID 1 PG GUID {1 + data}(mesh_dp)" if named else "1"
        tp = f"ID 2 PG GUID {3 + tensor}(mesh_tp)" if named else "2"
        reached = {4: (3, 3)}.get(rank, (4, 3) if rank in (0, 2, 6) else (4, 4))
        text = status(rank, dp, rank // 2, *reached)
        logs[f"rank{rank}"] = text + status(rank, tp, data, *{4: (4, 3), 5: (3, 3)}.get(rank, (4, 4)))
    return logs


def test_waits_are_followed_through_the_groups_to_one_rank(tmp_path: Path) -> None:
    found = findings(tmp_path, **mesh(named=True))
    assert (found[0].cause.value, found[0].ranks) == ("sync.deadlock_or_hang_waiting_rank", (5,))


def test_the_same_in_one_log(tmp_path: Path) -> None:
    found = findings(tmp_path, run="".join(mesh(named=True).values()))
    assert (found[0].cause.value, found[0].ranks) == ("sync.deadlock_or_hang_waiting_rank", (5,))


def test_a_number_of_a_group_that_each_process_gives_is_not_the_same_group(tmp_path: Path) -> None:
    """Before torch 2.4, `PG 2` is another group on every second rank: nobody can be followed, nobody is accused."""
    found = findings(tmp_path, **mesh(named=False))
    assert all(each.cause.value != "sync.collective_mismatch" for each in found)
    assert found[0].ranks in ((5,), ())


@pytest.mark.parametrize(("one", "other"), [("3(mesh_tp)", "4(mesh_tp)"), ("1(mesh_dp)", "3(mesh_tp)")])
def test_operations_of_different_groups_are_no_mismatch(tmp_path: Path, one: str, other: str) -> None:
    logs = {}
    for rank in range(4):
        group, op = (one, "ALLREDUCE") if rank < 2 else (other, "_ALLGATHER_BASE")
        logs[f"rank{rank}"] = status(rank, f"ID 2 PG GUID {group}", rank % 2, 4, 3).replace("ALLREDUCE", op)
    assert "sync.collective_mismatch" not in [each.cause.value for each in findings(tmp_path, **logs)]


def test_operations_of_one_group_with_one_number_are(tmp_path: Path) -> None:
    logs = {}
    for rank in range(4):
        op = "_ALLGATHER_BASE" if rank == 3 else "ALLREDUCE"
        logs[f"rank{rank}"] = status(rank, "ID 0 PG GUID 0(default_pg)", rank, 4, 3).replace("ALLREDUCE", op)
    found = findings(tmp_path, **logs)
    assert (found[0].cause.value, found[0].ranks) == ("sync.collective_mismatch", (3,))


def test_a_rank_that_has_finished_what_others_wait_in_did_join_it(tmp_path: Path) -> None:
    logs = {}
    for rank in range(4):
        logs[f"rank{rank}"] = status(rank, "ID 0 PG GUID 0(default_pg)", rank, 4, 4 if rank == 1 else 3, of=0)
    assert "did not join" not in findings(tmp_path, **logs)[0].title


def counts(world: World | Skipping, rank: int, axis: int) -> tuple[int, int]:
    """The last numbers that were handed over and that ended."""
    program = world.programs[rank] if isinstance(world, Skipping) else world.program
    handed = world.done[rank] + 1 if isinstance(world, Skipping) else world.handed[rank]
    return program[:handed].count(axis) or -1, program[: world.done[rank]].count(axis) or -1


def said_in(world: World | Skipping) -> EvidenceSet:
    """The status lines of all groups of all ranks, each with the rank within its group."""
    items = []
    for rank in world.ranks:
        for axis in range(len(world.shape)):
            members = world.group[rank, axis]
            enqueued, completed = counts(world, rank, axis)
            fact = CollectiveProgress(
                rank=members.index(rank),
                last_enqueued=enqueued,
                last_completed=completed,
                group=f"{axis} PG GUID {axis}_{members[0]}(axis{axis})",
            )
            items.append(Evidence(fact=fact, origin=Origin(source=f"{rank}", line=axis), rank=Rank(index=rank)))
    return EvidenceSet(items=tuple(items))


@settings(max_examples=300)
@given(worlds())
def test_exactly_the_ranks_that_broke_are_named_on_any_mesh(world: World) -> None:
    world.ahead = 1
    world.host_hangs |= world.device_hangs
    world.device_hangs = {}
    world.runs_to_its_end()
    assert set(entered(said_in(world))[0]) == world.culprits()


@settings(max_examples=300)
@given(skipping())
def test_nobody_but_the_rank_that_left_a_collective_out_is_named(world: Skipping) -> None:
    world.runs_to_its_end()
    assert set(entered(said_in(world))[0]) <= {world.rank}
