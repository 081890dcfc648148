# SPDX-License-Identifier: Apache-2.0
"""Every scenario between nodes. Machine 0 has the leader, and machine 1 is the one that the fault is about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from keepstep_lab.nodes import acts
from keepstep_lab.nodes.trial import NodeScenario, Trial

SILENT = "network.unreachable_or_firewall"
GONE = "network.connection_reset_peer_died"
KILLED = "unknown.not_established"
"""SIGKILL from nobody knows whom."""
FOLDER_LOST: dict[str, Any] = {"cause": KILLED, "host": "node-1", "ranks": (1,), "also": ("RES012",)}
SHRINKS: dict[str, Any] = {"nodes": "1:2", "host": "node-1", "ranks": (1,), "named": "node-1, with rank 1, has been"}

GUARDED: dict[str, Any] = {"guarded": True}
OVER_SSH: dict[str, Any] = {"engine": "ssh", "host": "node-2", "statuses": (0,), **GUARDED}
GROWTH: dict[str, dict[str, Any]] = {"": GUARDED, "_ssh": {**OVER_SSH, "machines": 3}}
SWAPS: dict[str, dict[str, Any]] = {
    "": {**GUARDED, "nodes": "2", "machines": 3, "spares": 1, "statuses": (0, 0, 0)},
    "_ssh": {**OVER_SSH, "nodes": "2", "machines": 4, "spares": 1},
}


def _row(name: str, act: Callable[[Trial], None], note: str, **other: Any) -> NodeScenario:
    return NodeScenario(name=name, act=act, note=note, **other)


_ROWS = (
    _row(
        "cut_5s_dropped",
        partial(acts.short_cut, target="DROP"),
        "A node is cut off for 5 s, packets are dropped: it is named, and nothing is restarted.",
        named="node-1, with rank 1, has been silent",
        attempts=1,
        quick=True,
    ),
    _row(
        "cut_5s_rejected",
        partial(acts.short_cut, target="REJECT"),
        "A node is cut off for 5 s, packets are rejected: it is named, and nothing is restarted.",
        named="node-1, with rank 1, has been silent",
        attempts=1,
    ),
    _row(
        "cut_dropped",
        acts.cut,
        "A node is cut off, packets are dropped: the run goes on without it, and it is a spare when it returns.",
        cause=SILENT,
        **SHRINKS,
    ),
    _row(
        "cut_rejected",
        partial(acts.cut, target="REJECT"),
        "A node is cut off, packets are rejected: the run goes on without it, and it is a spare when it returns.",
        cause=SILENT,
        **SHRINKS,
    ),
    _row(
        "cut_one_way_in",
        partial(acts.cut, chains=("INPUT",)),
        "A node hears nothing any more, but is heard: the run goes on without it, and never two attempts at once.",
        cause=SILENT,
        **SHRINKS,
    ),
    _row(
        "cut_one_way_out",
        partial(acts.cut, chains=("OUTPUT",)),
        "A node is not heard any more, but hears: the run goes on without it, and never two attempts at once.",
        cause=SILENT,
        **SHRINKS,
    ),
    *(
        _row(
            f"grown_then_killed{tail}",
            acts.grown_then_killed,
            "A node is cut off and comes back; once the world has grown again, its rank is killed: all come back.",
            cause=SILENT,
            attempts=4,
            **{**SHRINKS, "named": "", **other},
        )
        for tail, other in GROWTH.items()
    ),
    *(
        _row(
            f"swapped_then_killed{tail}",
            acts.swapped_then_killed,
            "A spare takes the place of a node that is cut off, and then its rank is killed, twice: all come back in "
            "their places.",
            cause=SILENT,
            attempts=4,
            **{**SHRINKS, "named": "", **other},
        )
        for tail, other in SWAPS.items()
    ),
    _row(
        "cut_60s",
        acts.cut_for_a_minute,
        "A node is cut off for 60 s, and the run needs it: it waits for the node, and goes on with it.",
        cause=SILENT,
        **{**SHRINKS, "nodes": "2"},
    ),
    _row(
        "agent_killed",
        acts.agent_killed,
        "The agent of a node is killed: its ranks end with it, and the run goes on without that node.",
        cause=GONE,
        statuses=(0, None),
        **SHRINKS,
    ),
    _row(
        "leader_killed",
        acts.leader_killed,
        "The leader is killed: every node ends its ranks, and the agents end with status 1.",
        attempts=1,
        statuses=(None, 1),
        says=(
            (1, "no word from the leader (node-0:"),
            (1, "start the same command with --node-rank 0 again where node-0 leads to, within 90 s"),
            (1, "the leader could not be reached for"),
        ),
        folder=False,
    ),
    _row(
        "leader_and_another_killed",
        partial(acts.leader_killed, also=(1,)),
        "The leader and the agent of another node are killed: the third ends its ranks, and ends with status 1.",
        machines=3,
        nodes="3",
        attempts=1,
        statuses=(None, None, 1),
        says=((2, "no word from the leader (node-0:"),),
        folder=False,
    ),
    _row(
        "leader_started_again",
        acts.leader_started_again,
        "The leader is killed and started again at once: it ends what runs, and goes on with the next attempt.",
        statuses=(None, 0, 0),
        folder=False,
    ),
    _row(
        "ranks_killed",
        acts.ranks_killed,
        "All ranks of a node are killed: the node and a rank are named, and all come back.",
        cause=KILLED,
        host="node-1",
        ranks=(2, 3),
        per_node=2,
        quick=True,
    ),
    _row(
        "slow_node",
        acts.slow,
        "The agent and the rank of a node get a tenth of the time: nothing is restarted.",
        attempts=1,
    ),
    _row(
        "clock_5min_ahead",
        acts.ranks_killed,
        "The clock of Python programs is 5 min ahead on a node, whose rank is killed: the same is said as without.",
        before=acts.wrong_clock,
        cause=KILLED,
        host="node-1",
        ranks=(1,),
    ),
    _row(
        "run_folder_read_only",
        acts.read_only,
        "The leader's run folder becomes read-only, and a rank is killed: that is reported, from another folder.",
        says=((0, "the run folder .keepstep/runs/"), (0, "cannot be written (Read-only file system)")),
        **FOLDER_LOST,
    ),
    _row(
        "run_folder_gone",
        acts.folder_gone,
        "The leader's run folder is removed, and a rank is killed: that is reported, from a folder made again.",
        says=((0, "was removed: it is made again"),),
        **FOLDER_LOST,
    ),
    _row(
        "run_folder_full",
        acts.folder_full,
        "The disk of the leader's run folder is full, and a rank is killed: that is reported, from another folder.",
        before=acts.small_run_folder,
        says=((0, "has no room left: the recording goes on in"),),
        **FOLDER_LOST,
    ),
    _row(
        "disk_full",
        acts.disk_full,
        "The disk of a node is full, and its rank is killed: that is still reported, and the run comes back.",
        before=acts.small_disk,
        cause=KILLED,
        host="node-1",
        ranks=(1,),
    ),
    _row(
        "second_run",
        acts.second_run,
        "Two runs on the same machines: one with the same port is refused in a line; with another port both go on.",
        attempts=1,
        statuses=(0, 0, 2, 0, 0),
        says=((2, "give each run a port of its own"),),
    ),
)
SCENARIOS: dict[str, NodeScenario] = {each.name: each for each in _ROWS}
