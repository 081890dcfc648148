# SPDX-License-Identifier: Apache-2.0
"""Which of two things came clearly later: what a watchdog's word is compared by."""

from __future__ import annotations

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ExceptionRaised
from keepstep.story.rank_endings import BOX_S, clearly_after


def said(line: int | None, at: float | None, source: str = "a.log") -> Evidence[Fact]:
    return Evidence(fact=ExceptionRaised(type="E", message=""), origin=Origin(source=source, line=line), at=at)


def test_in_one_log_the_lines_tell_and_else_the_times_beyond_what_a_box_may_be_late() -> None:
    assert clearly_after(said(3, 1.0), said(2, 99.0))
    assert not clearly_after(said(2, 99.0), said(2, 1.0))
    assert not clearly_after(said(2, 99.0), said(3, 1.0))
    for other in (said(9, 10.0, "b.log"), said(None, 10.0)):
        assert clearly_after(said(1, 10.1 + BOX_S), other)
        assert not clearly_after(said(1, 10.0 + BOX_S), other)
        assert not clearly_after(said(1, None), other)
    assert not clearly_after(said(1, 99.0), said(9, None, "b.log"))
