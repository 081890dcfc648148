"""Times for lines that state none."""

from __future__ import annotations

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ErrorSaid, ExceptionRaised, Loudness
from keepstep.model.facts.training import StepSeen
from keepstep.model.identity import Rank
from keepstep.story.filled_times import with_times

_RAISED = ExceptionRaised(type="RuntimeError", message="peer went away")
LINE = "RuntimeError: peer went away"


def said(
    fact: Fact, line: int, at: float | None, *, source: str = "rank3.log", rank: int | None = 3, quote: str = ""
) -> Evidence[Fact]:
    who = None if rank is None else Rank(index=rank)
    return Evidence(fact=fact, origin=Origin(source=source, line=line), rank=who, at=at, quote=quote)


def test_a_line_between_two_timed_ones_has_their_time_if_they_are_close() -> None:
    error = ErrorSaid(text="odd", loudness=Loudness.WARNED)
    for gap, at, within in (
        (1.0, 100.5, 0.5),
        (0.0, 100.0, 0.0),
        (2.0, 101.0, 1.0),
        (2.5, None, 0.0),
        (-5.0, None, 0.0),
    ):
        items = [said(StepSeen(step=1), 1, 100.0), said(error, 2, None), said(StepSeen(step=2), 3, 100.0 + gap)]
        found = with_times(items)[1]
        assert (found.at, found.within_s) == (at, within)


def test_a_last_line_without_a_time_keeps_none() -> None:
    items = [said(StepSeen(step=1), 1, 100.0), said(ErrorSaid(text="odd", loudness=Loudness.WARNED), 2, None)]
    assert with_times(items) == items


def test_the_launchers_copy_of_a_line_gives_its_time() -> None:
    """The rank's own log has no time for it, or only that of the last line above, an hour before."""
    for known in (None, 100.0):
        own = said(_RAISED, 9, known, quote=LINE)
        copy = said(_RAISED, 70, 3700.0, source="launcher.log", quote=LINE)
        both = {"rank3.log", "launcher.log"}
        assert [e.at for e in with_times([own, copy], both)] == [3700.0, 3700.0]
        assert with_times([own, copy], {"rank3.log"}) == [own, copy]  # their clocks may differ
        other = said(_RAISED, 70, 3700.0, source="launcher.log", rank=2, quote=LINE)
        assert with_times([own, other], both) == [own, other]
        again = said(_RAISED, 90, 3900.0, source="launcher.log", quote=LINE)
        assert with_times([own, copy, again], both) == [own, copy, again]  # which one is it?


def test_what_has_no_line_has_no_place_between_others() -> None:
    error = ErrorSaid(text="odd", loudness=Loudness.WARNED)
    items = [said(StepSeen(step=1), 1, 100.0), said(error, 2, None), said(StepSeen(step=2), 3, 101.0)]
    nowhere = Evidence(fact=error, origin=Origin(source="rank3.log"), rank=Rank(index=3))
    assert [each.at for each in with_times([nowhere, *items])] == [None, 100.0, 100.5, 101.0]


def test_only_last_words_of_a_rank_that_are_long_enough_are_taken_for_a_copy() -> None:
    both = {"rank3.log", "launcher.log"}

    def times(fact: Fact, quote: str, rank: int | None = 3, source: str = "launcher.log") -> list[float | None]:
        own = said(fact, 9, 100.0, quote=quote, rank=rank)
        return [e.at for e in with_times([own, said(fact, 70, 3700.0, source=source, quote=quote, rank=rank)], both)]

    assert times(_RAISED, "x" * 12) == [3700.0, 3700.0]
    assert times(_RAISED, "x" * 11) == [100.0, 3700.0]
    assert times(_RAISED, LINE, rank=None) == [100.0, 3700.0]
    assert times(StepSeen(step=1), LINE) == [100.0, 3700.0], "a step that is printed again is another one"
    assert times(_RAISED, LINE, source="other.log") == [100.0, 3700.0], "its clock may differ"
    assert times(_RAISED, f"12:00:01 {LINE}") == [100.0, 3700.0], "it states its time"
