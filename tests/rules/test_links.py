# SPDX-License-Identifier: Apache-2.0
"""The rules of the network check on small sets of evidence: one finding per fault, whatever the cluster's size."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import keepstep.rules
from keepstep.check.checkup import side_by_side
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.cluster import ClusterSeen
from keepstep.model.facts.links import (
    ClockCompared,
    GrpcExchanged,
    HostNotStarted,
    InterfaceCounters,
    LinkProbed,
    MeetingFailed,
    MeetingPortsTaken,
    MemberLeft,
    MemberMissing,
    Reached,
)
from keepstep.model.finding import Finding, Severity
from keepstep.model.rule import rules_in
from keepstep.story.engine import diagnose

RULES = rules_in(keepstep.rules)
FAST = 1.25e9


def found(*facts: Fact) -> tuple[Finding, ...]:
    items = tuple(Evidence(fact=fact, origin=Origin(source="a test"), quote="said") for fact in facts)
    report = diagnose(EvidenceSet(items=items), RULES, side_by_side)
    assert not report.crashed
    return report.findings


def titles(*facts: Fact) -> list[str]:
    return [finding.title for finding in found(*facts)]


def link(a: int, b: int, **more: Any) -> LinkProbed:
    given: dict[str, Any] = {
        "source": f"node-{a}",
        "target": f"node-{b}",
        "source_rank": a,
        "target_rank": b,
        "name": f"node-{b}",
        "address": f"10.0.0.{b}",
        "port": 2222,
        "of_the_job": True,
        "latency_s": 1e-4,
        "quickest_s": 1e-4,
        "rate_bytes_s": FAST,
        "full_size": 1500,
    }
    made = LinkProbed(**{**given, **more})
    return (
        made
        if made.usable
        else dataclasses.replace(made, latency_s=None, quickest_s=None, rate_bytes_s=None, full_size=None)
    )


def cluster(size: int, **changed: Any) -> list[LinkProbed]:
    """All links of a healthy cluster; ``changed`` replaces fields, such as ``l1_2={...}`` for the link from 1 to 2."""
    return [link(a, b, **changed.get(f"l{a}_{b}", {})) for a in range(size) for b in range(size) if a != b]


DROP = {"reached": Reached.NO_ANSWER, "said": "no answer"}
REJECT = {"reached": Reached.REFUSED, "said": "Connection refused"}


@pytest.mark.parametrize("size", [2, 3, 4, 32])
def test_a_healthy_cluster_is_silent(size: int) -> None:
    assert titles(*cluster(size)) == []


def test_rates_that_scatter_as_on_a_busy_machine_are_silent() -> None:
    rates = [FAST / (1 + (7 * n) % 12) for n in range(12 * 11)]
    links = [dataclasses.replace(each, rate_bytes_s=rate) for each, rate in zip(cluster(12), rates, strict=True)]
    again = [
        dataclasses.replace(each, rate_bytes_s=FAST, again=True)
        for each in links
        if (each.rate_bytes_s or 0) < FAST / 10
    ]
    assert titles(*links, *again) == []


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        ({"l1_2": DROP, "l2_1": DROP}, "node-1 and node-2 get no answer from each other on port 2222"),
        ({"l1_2": DROP}, "node-1 gets no answer from node-2 on port 2222, while node-2 reaches node-1"),
        ({"l1_2": REJECT, "l2_1": REJECT}, "connections between node-1 and node-2 on port 2222 are rejected"),
        ({"l1_2": REJECT}, "node-1 is rejected by node-2 on port 2222, while node-2 reaches node-1"),
        ({f"l{n}_3": DROP for n in range(8)}, "no host gets an answer from node-3 on port 2222"),
        ({f"l{n}_3": REJECT for n in range(8)}, "every connection to node-3 on port 2222 is rejected"),
        ({f"l3_{n}": DROP for n in range(8)}, "node-3 gets no answer from any host on port 2222"),
        ({f"l3_{n}": REJECT for n in range(8)}, "every connection that node-3 opens on port 2222 is rejected"),
        (
            {"l1_2": {"passed_size": 1280, "rate_bytes_s": None}},
            "packets of 1500 bytes get lost from node-1 to node-2; 1280 bytes pass",
        ),
        (
            {"l1_2": {"reached": Reached.NO_ANSWER, "owned": False, "name": "10.9.9.9"}},
            "the job looks for node-2 at 10.9.9.9, which node-2 does not have",
        ),
        (
            {"l1_2": {"reached": Reached.STRANGER}},
            "node-2 resolves to 10.0.0.2 on node-1, where something other than node-2 answers",
        ),
    ],
)
def test_each_broken_link_gives_one_finding_that_names_its_ends(changed: dict[str, Any], title: str) -> None:
    assert titles(*cluster(8, **changed)) == [title]


def test_a_service_that_leads_to_the_host_by_another_address_is_silent() -> None:
    assert titles(*cluster(3, l0_1={"owned": False})) == []


def test_one_slow_link_of_4950_is_named_by_its_two_ends() -> None:
    slow = {"rate_bytes_s": FAST / 50}
    links = cluster(100, l17_81=slow, l81_17=slow)
    again = [dataclasses.replace(each, again=True) for each in links if each.rate_bytes_s != FAST]
    (finding,) = found(*links, *again)
    assert finding.title.startswith(
        "the link between node-17 and node-81 carries 200 Mbit/s, against a median of 10.0 Gbit/s"
    )
    assert finding.ranks == (17, 81)


def test_a_link_that_was_slow_only_once_is_silent() -> None:
    links = cluster(6, l1_2={"rate_bytes_s": FAST / 50})
    assert titles(*links, link(1, 2, again=True)) == []
    assert titles(*links) == [], "what was not measured a second time is not judged"


@pytest.mark.parametrize("size", [3, 4, 10])
def test_a_host_that_is_slow_in_all_its_links_is_named_as_that_host(size: int) -> None:
    slow = {"rate_bytes_s": FAST / 100}
    links = cluster(size, **{f"l{n}_2": slow for n in range(size)} | {f"l2_{n}": slow for n in range(size)})
    again = [dataclasses.replace(each, again=True) for each in links if each.rate_bytes_s != FAST][:3]
    (finding,) = found(*links, *again)
    assert finding.title.startswith("node-2 is slow on")
    assert finding.ranks == (2,) and finding.severity is Severity.FATAL


@pytest.mark.parametrize(("rate", "severity"), [(FAST / 6, Severity.WARNING), (FAST / 30, Severity.FATAL)])
def test_how_slow_it_is_says_how_bad_it_is(rate: float, severity: Severity) -> None:
    links = cluster(6, l1_2={"rate_bytes_s": rate})
    (finding,) = found(*links, link(1, 2, rate_bytes_s=rate, again=True))
    assert finding.severity is severity


def test_answers_that_come_late_on_one_link_are_named() -> None:
    late = {"latency_s": 0.04, "quickest_s": 0.04}
    (finding,) = found(
        *cluster(6, l1_2=late, l2_1=late), link(1, 2, **late, again=True), link(2, 1, **late, again=True)
    )
    assert finding.title == "answers from node-2 to node-1 take 40.0 ms, against a median of 0.1 ms"


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_clock_that_is_off_is_named_once(size: int) -> None:
    clocks = [
        ClockCompared(
            source=f"node-{a}",
            target=f"node-{b}",
            ahead_s=5.0 * ((b == 1) - (a == 1)),
            uncertain_s=1e-4,
            source_rank=a,
            target_rank=b,
        )
        for a in range(size)
        for b in range(size)
        if a != b
    ]
    (finding,) = found(*clocks)
    assert finding.severity is Severity.WARNING
    assert "node-1" in finding.title and "5.0 s" in finding.title
    assert titles(*(dataclasses.replace(clock, ahead_s=clock.ahead_s / 100) for clock in clocks)) == []
    assert titles(*(dataclasses.replace(clock, uncertain_s=10.0) for clock in clocks)) == []


@pytest.mark.parametrize(
    ("fact", "rule"),
    [
        (InterfaceCounters(host="a", interface="eth0", packets=10**9, errors=10**5, dropped=0), "HWD103"),
        (
            InterfaceCounters(
                host="a", interface="eth0", packets=10**9, errors=9, dropped=0, packets_now=1000, errors_now=9
            ),
            "HWD103",
        ),
        (
            InterfaceCounters(
                host="a", interface="eth0", packets=10**9, errors=0, dropped=10**4, packets_now=9999, dropped_now=5000
            ),
            "HWD103",
        ),
        (
            InterfaceCounters(
                host="a", interface="eth0", packets=10**9, errors=20, dropped=10**5, packets_now=9999, dropped_now=9
            ),
            None,
        ),
        (MemberMissing(rank=3, host="node-3", waited_s=30, arrived=3, expected=4, reached=Reached.NO_ANSWER), "NET101"),
        (MemberMissing(rank=3, waited_s=30, arrived=3, expected=4), "NET101"),
        (MeetingFailed(where="node-0:23400 to 23700", reached=Reached.NO_ANSWER, waited_s=30), "NET102"),
        (MeetingFailed(where="rank 0", reached=Reached.RESET, waited_s=0, said="closed"), "NET102"),
        (MeetingPortsTaken(ports=(23400, 23401)), "NET103"),
        (MemberLeft(rank=3, host="node-3", during="the probes", how="reset"), "NET114"),
        (HostNotStarted(rank=1, host="b", status=255, said="Permission denied"), "NET116"),
        (HostNotStarted(rank=1, host="b", status=127, said="sh: keepstep: not found"), "ENV008"),
    ],
)
def test_each_fact_is_judged_by_its_rule(fact: Fact, rule: str | None) -> None:
    assert [finding.rule for finding in found(fact)] == ([rule] if rule else [])


def test_ranks_that_never_came_for_one_reason_are_one_finding() -> None:
    missing = [
        MemberMissing(rank=n, host=f"node-{n // 8}", waited_s=30, arrived=8, expected=64, reached=Reached.NO_ANSWER)
        for n in range(8, 64)
    ]
    (finding,) = found(*missing)
    assert finding.title.startswith("ranks 8-63 (node-1, node-2, node-3 and node-4 and others) never joined: 8 of 64")


def test_a_host_that_ssh_could_not_start_is_not_also_missing() -> None:
    missing = MemberMissing(rank=1, host="b", waited_s=9, arrived=1, expected=2)
    assert [f.rule for f in found(missing, HostNotStarted(rank=1, host="b", status=255))] == ["NET116"]


def test_a_rank_whose_place_another_process_took_is_told_as_that_and_not_as_missing() -> None:
    missing = MemberMissing(rank=1, host="b", waited_s=0.1, arrived=2, expected=2)
    twice = ClusterSeen(said_by="TF_CONFIG", size=2, own="worker:0", own_rank=0)
    (finding,) = found(missing, twice, twice)
    assert finding.rule == "CFG111"
    assert "TF_CONFIG" in finding.fixes[0].do
    assert [f.rule for f in found(missing)] == ["NET101"], "without the config part nothing else would tell it"


def test_grpc_is_blamed_only_where_plain_connections_pass() -> None:
    call = GrpcExchanged(source="node-0", target="node-1", source_rank=0, target_rank=1, error="UNAVAILABLE: closed")
    assert [f.rule for f in found(*cluster(2), call)] == ["NET115"]
    assert [f.rule for f in found(*cluster(2, l0_1=DROP, l1_0=DROP), call)] == ["NET104"]


def test_many_blocked_pairs_are_not_a_flood() -> None:
    changed = {f"l{a}_{b}": DROP for a in range(0, 20) for b in range(20, 40)}
    assert len(found(*cluster(40, **changed))) < 20
