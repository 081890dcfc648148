# SPDX-License-Identifier: Apache-2.0
"""Which ranks have arrived, which are missing, and which contradict each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keepstep.signals.arrivals import Arrival, meeting


def arrival(index: int, pid: int | None = None, **more: Any) -> Arrival:
    whole: dict[str, Any] = {
        "size": 3,
        "at": "127.0.0.1:29500",
        "program": "train.py in /job",
        "here": True,
        "session": 7,
        **more,
    }
    return Arrival(pid=pid if pid is not None else 100 + index, framework="torch", index=index, **whole)


def test_who_is_missing_is_named() -> None:
    found = meeting(arrival(0), [arrival(0), arrival(1)])
    assert (found.arrived, found.missing, found.contradicts, found.speaks) == ((0, 1), (2,), False, True)
    assert found.words(20.0) == "2 of 3 ranks arrived after 20 s; rank 2 is missing (at 127.0.0.1:29500)"
    assert not meeting(arrival(1), [arrival(0), arrival(1)]).speaks, "one speaks for all"


def test_where_hosts_are_not_known_nobody_is_called_missing() -> None:
    words = meeting(arrival(0, here=False, at="node-0:29500"), []).words(20.0, answers=False)
    assert words.startswith(
        "waiting for the others at node-0:29500 for 20 s; nothing answers there; 1 of 3 ranks arrived on this host"
    )
    assert "missing" not in words and "other hosts cannot be seen" in words


def test_other_jobs_are_not_counted() -> None:
    others = [
        arrival(1, at="127.0.0.1:1"),
        arrival(2, program="other.py in /job", at="127.0.0.1:2"),
        replace(arrival(1, pid=9), framework="jax"),
    ]
    found = meeting(arrival(0), others)
    assert found.arrived == (0,) and found.missing == (1, 2)
    assert found.elsewhere == ("process 101 of the same program waits at 127.0.0.1:1 as rank 1 of 3",)


def test_the_same_rank_twice_is_no_leftover() -> None:
    found = meeting(arrival(1, pid=42), [arrival(0), arrival(1, pid=41)])
    assert found.twice == (41, 42) and found.contradicts
    assert "rank 1 was given twice: processes 41 and 42" in found.words(0.0)
    trains = arrival(1, pid=41, done=True)
    assert meeting(arrival(1, pid=42), [trains]).twice == (41, 42), "started from the same shell"
    assert meeting(arrival(1, pid=42), [replace(trains, session=8)]).twice == (), "another user's run, or yesterday's"


def test_ranks_that_were_told_different_sizes() -> None:
    found = meeting(arrival(0), [arrival(1, size=2)])
    assert found.sizes == ((1, 2),) and found.contradicts
    assert "rank 0 has a world size of 3, rank 1 has 2" in found.words(1.0)


def test_the_fields_are_those_of_the_fact() -> None:
    from keepstep.model.facts.arrivals import RanksArriving

    fields = meeting(arrival(0), [arrival(1)]).fields(20.04, answers=True, starting=1)
    fact = RanksArriving(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})
    assert (fact.missing, fact.answers, fact.starting, fact.seconds) == ((2,), True, 1, 20.0)
