# SPDX-License-Identifier: Apache-2.0
"""Evidence survives the way through JSON; the public document has its promised shape."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.model.cause import Cause
from keepstep.model.codec import MOST_EVIDENCE, from_dict, moment, report_to_dict, representative, to_dict
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import ConnectFailed, PeerLost, PortTaken, Why
from keepstep.model.facts.process import Frame
from keepstep.model.facts.sync import RecordedCollective
from keepstep.model.facts.training import StepSeen
from keepstep.model.finding import Confidence, Finding, Fix, Severity, Standing
from keepstep.model.identity import Rank
from keepstep.model.report import Report, RuleCrash, Verdict
from tests.facts_with_signatures import KINDS

EXAMPLES = 8
"""Of each kind of fact. The test of evidence tries a hundred of any kind."""
WHOLE = st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1)
st.register_type_strategy(int, WHOLE)
TIMES = st.none() | st.floats(allow_nan=False, allow_infinity=False)
ORIGINS = st.builds(
    Origin, source=st.text(), line=st.none() | st.integers(min_value=1, max_value=1 << 63), stream=st.text()
)
RANKS = st.none() | st.builds(
    Rank,
    index=st.integers(min_value=0, max_value=999_999),
    node=st.none() | st.text(),
    local=st.none() | WHOLE,
    role=st.none() | st.text(),
    attempt=WHOLE,
)


@st.composite
def evidences(draw: st.DrawFn) -> Evidence[Fact]:
    fact = draw(st.sampled_from(KINDS).flatmap(st.from_type))
    return Evidence(fact=fact, origin=draw(ORIGINS), rank=draw(RANKS), at=draw(TIMES), quote=draw(st.text()))


def same(one: Any, other: Any) -> bool:
    """Equality by which NaN equals NaN."""
    return repr(one) == repr(other)


@given(evidences())
def test_evidence_survives_the_way_through_json(evidence: Evidence[Fact]) -> None:
    text = json.dumps(to_dict(evidence), allow_nan=False)
    assert same(from_dict(json.loads(text)), evidence)


def test_every_kind_of_fact_has_fields_that_the_codec_knows() -> None:
    """hypothesis prints the fact that failed, and with it the kind."""

    def there_and_back(fact: Fact) -> None:
        found = from_dict(to_dict(Evidence(fact=fact, origin=Origin(source="a.log"))))
        assert same(found.fact, fact)

    for kind in KINDS:
        settings(max_examples=EXAMPLES)(given(st.from_type(kind))(there_and_back))()


def test_enums_frames_and_numbers_that_json_lacks() -> None:
    for fact in (
        ConnectFailed(why=Why.REFUSED, peer="b:1"),
        RecordedCollective(group="g", seq=1, op="all_reduce", state="started", frame=Frame(function="f", line=3)),
        StepSeen(step=3, loss=math.inf),
        StepSeen(step=3, loss=math.nan),
    ):
        there = json.loads(json.dumps(to_dict(Evidence(fact=fact, origin=Origin(source="x"))), allow_nan=False))
        assert same(from_dict(there).fact, fact)


def test_fields_of_a_later_version_are_passed_over() -> None:
    found = to_dict(Evidence(fact=PortTaken(port=5), origin=Origin(source="x")))
    found["fields"]["invented_later"] = 1
    found["also_later"] = {}
    assert from_dict(found).fact == PortTaken(port=5)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"fact": "NoSuchFact", "fields": {}, "origin": {"source": "x"}},
        {"fact": "PortTaken", "fields": {"port": "5"}, "origin": {"source": "x"}},
        {"fact": "PortTaken", "fields": {"port": True}, "origin": {"source": "x"}},
        {"fact": "PortTaken", "fields": {}, "origin": {}},
        {"fact": "PortTaken", "fields": [], "origin": {"source": "x"}},
        {"fact": "ConnectFailed", "fields": {"why": "no such why"}, "origin": {"source": "x"}},
        {"fact": "ConnectFailed", "fields": {}, "origin": {"source": "x"}},
        {"fact": ["PortTaken"], "fields": {}, "origin": {"source": "x"}},
    ],
)
def test_what_is_not_evidence_is_a_value_error(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        from_dict(broken)


def test_moments() -> None:
    assert moment(0.0) == "1970-01-01T00:00:00.000Z"
    assert moment(1763164800.25) == "2025-11-15T00:00:00.250Z"
    assert moment(None) is None
    assert moment(math.nan) is None
    assert moment(1e300) is None


def _lost(rank: int, line: int) -> Evidence[Fact]:
    return Evidence(fact=PeerLost(how="reset"), origin=Origin(source="all.log", line=line), rank=Rank(index=rank))


def test_the_first_piece_of_each_rank_and_kind_is_shown() -> None:
    taken = Evidence(fact=PortTaken(), origin=Origin(source="all.log", line=9), rank=Rank(index=0))
    pieces = [_lost(0, 1), _lost(0, 2), _lost(1, 3), _lost(0, 4), taken]
    assert [e.origin.line for e in representative(pieces)] == [1, 3, 9]
    assert len(representative([_lost(r, r + 1) for r in range(64)])) == MOST_EVIDENCE


def test_the_document_has_the_promised_keys() -> None:
    evidence = tuple(_lost(r, r + 1) for r in range(64))
    finding = Finding(
        rule="NET004",
        cause=Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        title="64 ranks lost their peer",
        because="a peer died",
        evidence=(dataclasses.replace(evidence[0], at=0.0), *evidence[1:]),
        ranks=tuple(range(64)),
        confidence=Confidence.SUPPORTED,
        severity=Severity.FATAL,
        standing=Standing.SYMPTOM,
        fixes=(Fix(do="look at the peer", command="dmesg -T"),),
    )
    report = Report(
        verdict=Verdict.FAILED,
        findings=(finding,),
        coverage=(Coverage(what="kernel log", state=CoverageState.UNAVAILABLE, why="needs root"),),
        crashed=(RuleCrash(rule="USR009", error="ValueError: x"),),
        ranks=tuple(range(64)),
        world_size=64,
    )
    document = json.loads(json.dumps(report_to_dict(report)))
    assert document["schema"] == "keepstep.report/1"
    assert document["verdict"] == "failed"
    assert document["skipped"] == [{"rule": "USR009", "error": "ValueError: x"}]
    assert document["coverage"] == [{"what": "kernel log", "state": "unavailable", "why": "needs root"}]
    assert document["world_size"] == 64
    (shown,) = document["findings"]
    assert shown["cause"] == "network.connection_reset_peer_died"
    assert (shown["rule"], shown["role"], shown["confidence"], shown["severity"]) == (
        "NET004",
        "initiating",
        "supported",
        "fatal",
    )
    assert shown["ranks"] == list(range(64))
    assert shown["evidence_total"] == 64
    assert len(shown["evidence"]) == MOST_EVIDENCE
    assert shown["evidence"][0] == {
        "source": "all.log",
        "line": 1,
        "quote": "",
        "rank": 0,
        "at": "1970-01-01T00:00:00.000Z",
    }
    assert shown["fixes"] == [{"do": "look at the peer", "command": "dmesg -T", "code": None, "safety": "safe"}]
