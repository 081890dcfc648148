# SPDX-License-Identifier: Apache-2.0
"""Flight-recorder dumps as each torch version writes them for NCCL, built from its source.

The fields are those in the headers of each version's wheel. No real dump of these was tried: that needs several GPUs.
What gloo writes since torch 2.8 is in ``tests/data/flight_recorder`` as torch wrote it.

| torch | "version" | groups                                       | numbers                         |
|-------|-----------|----------------------------------------------|---------------------------------|
| 2.2   | none      | ``pg_id``, a number of each process          | ``seq_id``; a bare list         |
| 2.3   | 1.4       | the same; ``pg_config`` is ``{1: [1, 5]}``   | ``seq_id``, ``op_id``           |
| 2.4   | 2.1       | ``process_group``: name and description      | ``collective_seq_id``, ``p2p_seq_id``, ``is_p2p`` |
| 2.5-7 | 2.4       | and ``pg_status``                            | and ``timeout_ms``              |
| 2.8   | 2.9       |                                              | and ``thread_id``, ``thread_name`` |
| 2.9-  | 2.10      | ``comm_lib_version`` for ``nccl_version``    |                                 |
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

VERSIONS = ("2.2", "2.3", "2.4", "2.5", "2.7", "2.8", "2.9")
_FORMAT = {"2.3": "1.4", "2.4": "2.1", "2.5": "2.4", "2.7": "2.4", "2.8": "2.9", "2.9": "2.10"}


@dataclass(frozen=True)
class Group:
    name: str
    desc: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One entry of one rank: a collective, or a send or recv between two ranks of the group."""

    group: Group
    number: int
    state: str
    op: str = "all_reduce"
    between: tuple[int, int] | None = None


def dump(version: str, rank: int, calls: list[Call], groups: list[Group]) -> bytes:
    """``groups``: those of the rank, in the order in which it made them; the first is the one of all ranks."""
    entries = [_entry(version, rank, n, call, groups) for n, call in enumerate(calls)]
    if version == "2.2":
        return pickle.dumps(entries, 2)
    whole: dict[str, Any] = {"version": _FORMAT[version], "entries": entries}
    if version == "2.3":
        whole["pg_config"] = {number: list(group.members) for number, group in enumerate(groups)}
        return pickle.dumps(whole, 2)
    whole["pg_config"] = {g.name: {"name": g.name, "desc": g.desc, "ranks": str(list(g.members))} for g in groups}
    if version != "2.4":
        whole["comm_lib_version" if version == "2.9" else "nccl_version"] = "2.21.5"
        whole["pg_status"] = {str(n): _status(calls, group) for n, group in enumerate(groups)}
    return pickle.dumps(whole, 2)


def _entry(version: str, rank: int, n: int, call: Call, groups: list[Group]) -> dict[str, Any]:
    started, done = call.state != "scheduled", call.state == "completed"
    found: dict[str, Any] = {"pg_id": groups.index(call.group), "profiling_name": f"nccl:{_op(rank, call)}"}
    found |= {"input_sizes": [[16]], "output_sizes": [[16]], "state": call.state, "retired": done}
    found["frames"] = [{"name": "step", "filename": "/job/train.py", "line": 20}]
    if version == "2.2":
        return found | {"seq_id": call.number, "time_created_us": 1_700_000_000_000_000 + n}
    found |= {"record_id": n, "op_id": n, "time_created_ns": 1_700_000_000_000_000_000 + n}
    found["time_discovered_started_ns"] = 1 if started else None
    found["time_discovered_completed_ns"] = 2 if done else None
    if version == "2.3":
        return found | {"seq_id": call.number}
    found |= {"process_group": (call.group.name, call.group.desc), "is_p2p": call.between is not None}
    found |= {"collective_seq_id": 0 if call.between else call.number, "p2p_seq_id": call.number if call.between else 0}
    found |= {"input_dtypes": ["Float"], "output_dtypes": ["Float"]}
    if version != "2.4":
        found["timeout_ms"] = 600_000
    return found | ({"thread_id": "281473793093664", "thread_name": "python"} if version in ("2.8", "2.9") else {})


def _op(rank: int, call: Call) -> str:
    """Sends and recvs name the ranks within the group."""
    if call.between is None:
        return call.op
    sender, receiver = (call.group.members.index(each) for each in call.between)
    return f"send {sender}->{receiver}" if rank == call.between[0] else f"recv {receiver}<-{sender}"


def _status(calls: list[Call], group: Group) -> dict[str, int]:
    mine = [call for call in calls if call.group == group and call.between is None]
    return {
        "last_enqueued_collective": max((c.number for c in mine), default=-1),
        "last_started_collective": max((c.number for c in mine if c.state != "scheduled"), default=-1),
        "last_completed_collective": max((c.number for c in mine if c.state == "completed"), default=-1),
    }
