# SPDX-License-Identifier: Apache-2.0
"""One hang in the flight-recorder format of every torch version gives the same culprit."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.cause import Cause
from keepstep.model.finding import Confidence, Finding
from keepstep.parse.formats.flight_recorder import read
from tests.rules.recorder_formats import VERSIONS, Call, Group, dump
from tests.story.test_wait_graph import World

DUMPS = Path(__file__).parents[1] / "data" / "flight_recorder"
WHOLE = Group("0", "default_pg", tuple(range(4)))
TOGETHER = {rank: [WHOLE] for rank in range(4)}
REAL = ("2.8", "2.9", "2.10", "2.13")


def findings(folder: Path) -> tuple[Finding, ...]:
    return explain_paths([folder]).report.findings


def named(folder: Path) -> tuple[tuple[int, ...], Confidence]:
    found = findings(folder)
    assert found and {each.cause for each in found} == {Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK}
    assert len({each.ranks for each in found}) == 1, [each.title for each in found]
    return found[0].ranks, found[0].confidence


@pytest.mark.parametrize("version", REAL)
@pytest.mark.parametrize(("scene", "culprit"), [("skip", 2), ("skip_json", 2), ("mesh", 5)])
def test_real_dumps_of_gloo(version: str, scene: str, culprit: int) -> None:
    """``tests/data/flight_recorder/make_dumps.py``; eight ranks in 2 x 2 x 2 for ``mesh``."""
    assert named(DUMPS / f"torch-{version}" / scene) == ((culprit,), Confidence.SUPPORTED)


def written(folder: Path, version: str, calls: dict[int, list[Call]], groups: dict[int, list[Group]]) -> Path:
    for rank, mine in calls.items():
        (folder / f"nccl_trace_rank_{rank}").write_bytes(dump(version, rank, mine, groups[rank]))
    return folder


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rank_that_skips_a_collective(tmp_path: Path, version: str) -> None:
    """Built from the source of each version; not tried with NCCL."""
    calls = {rank: [Call(WHOLE, n, "completed") for n in range(1, 7)] for rank in range(4)}
    for rank in (0, 1, 3):
        calls[rank].append(Call(WHOLE, 7, "started"))
    assert named(written(tmp_path, version, calls, TOGETHER)) == ((2,), Confidence.SUPPORTED)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stage_of_a_pipeline_that_stops(tmp_path: Path, version: str) -> None:
    """0 and 1 wait to send, 3 waits to receive; 2 did neither. Built from the source, not tried with NCCL."""

    def transfer(sender: int, number: int, state: str) -> Call:
        return Call(WHOLE, number, state, between=(sender, sender + 1))

    calls = {rank: [] for rank in range(4)}
    for sender in range(3):
        for number in (1, 2):
            calls[sender].append(transfer(sender, number, "completed"))
            calls[sender + 1].append(transfer(sender, number, "completed"))
    calls[0].append(transfer(0, 3, "completed"))
    calls[1] += [transfer(0, 3, "completed"), transfer(1, 3, "started")]
    calls[0].append(transfer(0, 4, "started"))
    calls[3].append(transfer(2, 3, "started"))
    assert named(written(tmp_path, version, calls, TOGETHER))[0] == (2,)


def on_a_mesh(folder: Path, version: str, world: World) -> Path:
    """The dumps of a simulated job; each rank numbers its groups for itself: all ranks, then one along each axis."""
    world.runs_to_its_end()
    whole = Group("0", "default_pg", tuple(world.ranks))
    calls: dict[int, list[Call]] = {rank: [] for rank in world.ranks}
    groups = {}
    for rank in world.ranks:
        axes = [world.group[rank, axis] for axis in range(len(world.shape))]
        groups[rank] = [whole, *(Group(f"{axis}{m}", f"axis_{axis}", m) for axis, m in enumerate(axes))]
        counted = dict.fromkeys(range(len(axes)), 0)
        for position in range(world.handed[rank]):
            axis = world.program[position]
            counted[axis] += 1
            state = "completed" if position < world.done[rank] else "started" if position < world.begun[rank] else ""
            calls[rank].append(Call(groups[rank][axis + 1], counted[axis], state or "scheduled"))
    return written(folder, version, calls, groups)


@pytest.mark.parametrize("ahead", [1, 100])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_rank_of_a_mesh_that_stops(tmp_path: Path, version: str, ahead: int) -> None:
    """Built from the source of each version; not tried with NCCL. torch 2.2 does not say which groups are the same."""
    world = World((2, 2, 2), [2, 1, 0] * 5, ahead=ahead, host_hangs={5: 9})
    ranks, sure = named(on_a_mesh(tmp_path, version, world))
    assert (ranks, sure) == ((5,), Confidence.HYPOTHESIS if version == "2.2" else Confidence.SUPPORTED)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_device_of_a_mesh_that_never_begins(tmp_path: Path, version: str) -> None:
    """Built from the source of each version; not tried with NCCL."""
    world = World((2, 2, 2), [2, 1, 0] * 5, ahead=100, device_hangs={6: 7})
    assert named(on_a_mesh(tmp_path, version, world))[0] == (6,)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_operations_of_other_groups_are_no_mismatch(tmp_path: Path, version: str) -> None:
    """Two tensor groups that both have number 1 on their ranks, in different operations."""
    groups, calls = {}, {}
    for rank in range(4):
        pair = Group(f"tp{rank // 2}", "tp", (0, 1) if rank < 2 else (2, 3))
        groups[rank] = [WHOLE, pair]
        calls[rank] = [Call(pair, 4, "started", op="all_reduce" if rank < 2 else "_all_gather_base")]
    assert Cause.SYNC_COLLECTIVE_MISMATCH not in [e.cause for e in findings(written(tmp_path, version, calls, groups))]


@pytest.mark.parametrize("version", VERSIONS)
def test_other_operations_under_other_numbers_are_no_mismatch(tmp_path: Path, version: str) -> None:
    calls = {rank: [Call(WHOLE, 4, "completed")] for rank in range(4)}
    calls[0].append(Call(WHOLE, 5, "started", op="broadcast"))
    assert Cause.SYNC_COLLECTIVE_MISMATCH not in [
        each.cause for each in findings(written(tmp_path, version, calls, TOGETHER))
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_other_operations_of_one_group_under_one_number_are_one(tmp_path: Path, version: str) -> None:
    calls = {rank: [Call(WHOLE, 5, "started", op="broadcast" if rank == 1 else "all_reduce")] for rank in range(4)}
    (found, *_) = findings(written(tmp_path, version, calls, TOGETHER))
    assert (found.cause, found.ranks) == (Cause.SYNC_COLLECTIVE_MISMATCH, (1,))


def test_the_labs_mesh_whose_rank_5_sleeps_names_no_other_rank_for_sure() -> None:
    """torch 2.13, gloo: ranks 6 and 7 wait in recv, which gloo does not record, so they look like rank 5."""
    found = findings(DUMPS / "lab_mesh" / "sleep_long")
    assert {each.ranks for each in found} == {(5,), (6,), (7,)}
    assert found[0].ranks == (5,) and {each.confidence for each in found} == {Confidence.HYPOTHESIS}
    assert "gloo does not record sends and recvs" in found[0].because


def test_the_labs_mesh_whose_rank_5_leaves_out_an_exchange_names_exactly_that() -> None:
    """torch 2.13, gloo: ranks 0, 1, 4 and 5 wait in a circle, 2 and 3 in recv, 6 and 7 for those."""
    (found,) = findings(DUMPS / "lab_mesh" / "skipped_exchange")
    assert (found.ranks, found.confidence) == ((5,), Confidence.SUPPORTED)
    assert found.title == "rank 5 did not join all_reduce #13, in which rank 1 waited, and went on"


def test_a_collective_that_nccl_gave_up_is_not_done() -> None:
    """torch's source: an entry that is retired but not completed has timed out. Not tried with NCCL."""
    entry = {"pg_id": 0, "seq_id": 3, "profiling_name": "nccl:all_reduce", "state": "started", "retired": True}
    (fact,) = read(pickle.dumps([entry], 2))
    assert getattr(fact, "state", "") == "started"
