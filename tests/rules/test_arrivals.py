# SPDX-License-Identifier: Apache-2.0
"""Ranks that wait for others at the start: what keepstep reports, and what it does not."""

from __future__ import annotations

from typing import Any

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.arrivals import RanksArriving
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import WorldFormed
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.process import StartedWith, TerminationRequested
from keepstep.model.identity import Rank
from keepstep.model.report import Report
from keepstep.rules import builtin_rules
from keepstep.story.engine import diagnose


def note(index: int, at: float = 100.0, **more: Any) -> Evidence[Fact]:
    whole: dict[str, Any] = {
        "size": 3,
        "at": "127.0.0.1:29500",
        "seconds": 20.0,
        "arrived": (0, 1),
        "missing": (2,),
        "here": True,
        **more,
    }
    fact = RanksArriving(framework="torch", index=index, **whole)
    return Evidence(
        fact=fact, origin=Origin(source=f"rank{index}.notes.jsonl"), rank=Rank(index=index), at=at, quote="waits"
    )


def told(*items: Evidence[Fact]) -> Report:
    return diagnose(EvidenceSet(items=items), builtin_rules())


def test_a_rank_that_never_came() -> None:
    root = told(note(0), note(1), note(0, at=140.0, seconds=60.0)).root
    assert root is not None and (root.rule, root.cause.value, root.ranks) == (
        "CFG202",
        "config.world_size_mismatch",
        (2,),
    )
    assert root.title == "2 of 3 ranks arrived at 127.0.0.1:29500; rank 2 did not, in 60 s"


def test_ranks_that_keepstep_run_started_itself() -> None:
    def started(ranks: int) -> Evidence[Fact]:
        return Evidence(fact=StartedWith(ranks=ranks), origin=Origin(source="start.jsonl"), quote="")

    root = told(started(2), note(0)).root  # a world of three
    assert root is not None and (root.rule, root.cause.value) == ("CFG202", "config.world_size_mismatch")
    root = told(started(3), note(0)).root
    assert root is not None and (root.cause.value, root.ranks) == ("sync.deadlock_or_hang_waiting_rank", (2,))
    assert root.title == "rank 2 did not arrive at 127.0.0.1:29500, where the other ranks had waited for 20 s"


def test_who_ends_a_run_whose_ranks_never_met_does_so_because_of_that() -> None:
    asked = Evidence(
        fact=TerminationRequested(signal="SIGINT", by="user"),
        origin=Origin(source="exits.jsonl"),
        at=150.0,
        quote="Ctrl-C",
    )
    root = told(note(0), asked).root
    assert root is not None and root.rule == "CFG202"


def test_a_rank_that_came_late_is_no_finding() -> None:
    formed = WorldFormed(size=3, index=0, framework="torch")
    late = Evidence(
        fact=formed, origin=Origin(source="rank0.notes.jsonl"), rank=Rank(index=0), at=130.0, quote="formed"
    )
    assert told(note(0), late).findings == ()


def test_different_sizes() -> None:
    root = told(note(0, sizes=((1, 2),), missing=(1, 2))).root
    assert root is not None and (root.rule, root.ranks) == ("CFG202", (0, 1)) and "rank 0 3, rank 1 2" in root.title


def test_a_rank_given_twice_explains_the_taken_port() -> None:
    taken = Evidence(
        fact=PortTaken(port=29500), origin=Origin(source="rank0.log", line=3), rank=Rank(index=0), quote="EADDRINUSE"
    )
    found = told(taken, note(0, twice=(41, 42)))
    assert found.root is not None and (found.root.rule, found.root.cause.value, found.root.ranks) == (
        "CFG203",
        "config.cluster_spec",
        (0,),
    )
    assert "processes 41 and 42" in found.root.title and "earlier run" not in found.root.because


def test_ranks_that_wait_elsewhere() -> None:
    there = ("process 7 of the same program waits at 127.0.0.1:29500 as rank 0 of 3",)
    root = told(note(1, at=100.0, elsewhere=there, answers=False, arrived=(1,), missing=(0, 2))).root
    assert root is not None and (root.rule, root.cause.value, root.ranks) == ("CFG204", "config.cluster_spec", (1,))


def test_where_rank_0_listens_the_others_came_to_the_wrong_place() -> None:
    there = ("process 7 of the same program waits at 127.0.0.1:37872 as rank 1 of 2",)
    root = told(note(0, at=100.0, elsewhere=there, answers=True, arrived=(0,), missing=(1,))).root
    assert root is not None and root.ranks == (1,) and root.cause.value == "config.cluster_spec"


def test_from_another_host_only_the_silence_is_known() -> None:
    fact = note(1, here=False, answers=False, arrived=(1,), missing=(0, 2))
    root = told(fact).root
    assert root is not None and (root.rule, root.cause.value) == ("NET052", "network.unreachable_or_firewall")
    assert told(note(1, here=False, answers=True, arrived=(1,), missing=(0, 2))).findings == ()
