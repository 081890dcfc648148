# SPDX-License-Identifier: Apache-2.0
"""A line without a time lies between the timed lines around it: no more is known, and no order is made of it."""

from __future__ import annotations

import math
from pathlib import Path

from keepstep.analyze.load_tables import known
from keepstep.analyze.why import explain_paths
from keepstep.model.cause import Cause
from keepstep.model.codec import report_to_dict
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import ConnectFailed, PeerLost, Why
from keepstep.model.finding import Confidence, Finding, Role, Severity, Standing
from keepstep.parse.scan.logscan import LogScan
from keepstep.story.causality import in_causal_order

PORT = "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."


def later(text: str) -> list[float]:
    return [s.later_s for s in LogScan(known()).scan([text.encode()]) if type(s.fact).__name__ == "PortTaken"]


def test_an_untimed_line_may_be_as_late_as_the_next_timed_one() -> None:
    assert later(f"2026-11-16 10:00:01 one\n{PORT}\nmore\n2026-11-16 10:00:16 two\n") == [15.0]


def test_at_the_end_of_a_log_it_may_be_as_late_as_can_be() -> None:
    assert later(f"2026-11-16 10:00:01 one\n{PORT}\nmore\n") == [math.inf]


def test_a_timed_line_has_its_own_time() -> None:
    assert later(f"2026-11-16 10:00:01 one\n2026-11-16 10:00:09 {PORT}\n") == [0.0]
    assert later(f"one\n{PORT}\n") == [0.0]


def test_a_time_that_is_only_a_bound_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(f"2026-11-16 10:00:01 one\n{PORT}\n")
    (tmp_path / "rank1.log").write_text(f"2026-11-16 10:00:01 one\n{PORT}\n2026-11-16 10:00:02 two\n")
    shown = report_to_dict(explain_paths([tmp_path]).report)["findings"][0]["evidence"]
    assert {each["source"]: each["at"] is None for each in shown} == {"rank0.log": True, "rank1.log": False}


def found(rule: str, cause: Cause, evidence: Evidence[Fact], doubt: Confidence, *explains: Cause) -> Finding:
    return Finding(
        rule=rule,
        cause=cause,
        title=rule,
        because="",
        evidence=(evidence,),
        confidence=doubt,
        severity=Severity.FATAL,
        ranks=(),
        standing=Standing.SYMPTOM,
        fixes=(),
        role=Role.INITIATING,
        explains=explains,
    )


def order(lost_later_s: float) -> list[tuple[str, Role]]:
    """A refusal at 10 s by its stamp, and a lost peer below a stamp of 1 s."""
    lost: Evidence[Fact] = Evidence(
        fact=PeerLost(how="reset"), origin=Origin(source="rank1.log", line=9), at=1.0, later_s=lost_later_s
    )
    refused: Evidence[Fact] = Evidence(
        fact=ConnectFailed(why=Why.REFUSED), origin=Origin(source="rank0.log", line=5), at=10.0
    )
    peer, network = Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.NETWORK_UNREACHABLE_OR_FIREWALL
    findings = [
        found("LOST", peer, lost, Confidence.SUPPORTED),
        found("REFUSED", network, refused, Confidence.HYPOTHESIS, peer),
    ]
    return [(each.rule, each.role) for each in in_causal_order(EvidenceSet(items=(lost, refused)), findings)]


def test_a_refusal_does_not_follow_from_a_loss_whose_time_is_unknown() -> None:
    assert order(math.inf) == [("LOST", Role.INITIATING), ("REFUSED", Role.CONTRIBUTING)]


def test_it_may_follow_from_a_loss_that_is_known_to_be_earlier() -> None:
    assert order(0.0) == [("LOST", Role.INITIATING), ("REFUSED", Role.CASCADE)]
