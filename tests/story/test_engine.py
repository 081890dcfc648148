"""The engine asks every rule and survives the ones that fail."""

from collections.abc import Iterator

from keepstep.model.cause import Cause
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet, Origin
from keepstep.model.facts.guard import RankDoing
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.process import ProcessExited, StartedWith
from keepstep.model.finding import Found, Severity, Standing
from keepstep.model.identity import Rank
from keepstep.model.report import Verdict
from keepstep.model.rule import rule
from keepstep.render.terminal import render_terminal
from keepstep.story.engine import diagnose

SEEN = Evidence(fact=PortTaken(port=1), origin=Origin(source="a", line=1))
LOOKED = (Coverage(what="1 log", state=CoverageState.CHECKED),)


@rule(id="AAA001", cause=Cause.NETWORK_PORT_IN_USE, needs=(PortTaken,))
def taken(seen: EvidenceSet) -> Iterator[Found]:
    """A port was taken."""
    yield Found(title="taken", because="", evidence=seen.all(PortTaken))


@rule(id="AAA002", cause=Cause.NETWORK_DNS, needs=(PortTaken,))
def broken(seen: EvidenceSet) -> Iterator[Found]:
    """Raises."""
    raise RuntimeError("oops")
    yield


@rule(id="AAA003", cause=Cause.UNKNOWN_NOT_ESTABLISHED, needs=(), standing=Standing.GUESS)
def guess(seen: EvidenceSet) -> Iterator[Found]:
    """Guesses."""
    yield Found(title="guess", because="", evidence=seen.items)


@rule(id="AAA004", cause=Cause.SLOW_STRAGGLER, needs=(PortTaken,), severity=Severity.WARNING)
def slow(seen: EvidenceSet) -> Iterator[Found]:
    """Is slow."""
    yield Found(title="slow", because="", evidence=seen.items)


def test_a_rule_that_raises_is_reported_and_the_others_go_on():
    report = diagnose(EvidenceSet(items=(SEEN,), coverage=LOOKED), [broken, taken])
    assert [f.rule for f in report.findings] == ["AAA001"]
    assert [(c.rule, c.error) for c in report.crashed] == [("AAA002", "RuntimeError: oops")]


def test_a_guess_is_asked_only_when_nothing_else_was_found():
    assert [f.rule for f in diagnose(EvidenceSet(items=(SEEN,)), [guess, taken]).findings] == ["AAA001"]
    assert [f.rule for f in diagnose(EvidenceSet(items=(SEEN,)), [guess]).findings] == ["AAA003"]


def test_verdict_and_exit_status_tell_healthy_from_not_looked():
    looked = diagnose(EvidenceSet(items=(), coverage=LOOKED), [taken])
    blind = diagnose(EvidenceSet(items=()), [taken])
    degraded = diagnose(EvidenceSet(items=(SEEN,), coverage=LOOKED), [slow])
    failed = diagnose(EvidenceSet(items=(SEEN,), coverage=LOOKED), [slow, taken])
    assert (looked.verdict, looked.exit_status) == (Verdict.HEALTHY, 0)
    assert (blind.verdict, blind.exit_status) == (Verdict.UNKNOWN, 3)
    assert (degraded.verdict, degraded.exit_status) == (Verdict.DEGRADED, 1)
    assert (failed.verdict, failed.exit_status, failed.findings[0].rule) == (Verdict.FAILED, 1, "AAA001")


def living(**fact: object) -> tuple[Evidence, ...]:
    doing = {"phase": "compute", "steps": 9, "usual_step_s": 0.1, "silent_s": 0.1, "alive": True, **fact}
    return tuple(
        Evidence(fact=RankDoing(**doing), origin=Origin(source=f"rank{rank}"), rank=Rank(index=rank))  # type: ignore[arg-type]
        for rank in (0, 1)
    )


def test_a_run_that_still_runs_is_not_proven_healthy():
    moves = diagnose(EvidenceSet(items=living(), coverage=LOOKED), [taken])
    stands = diagnose(EvidenceSet(items=living(silent_s=5.0), coverage=LOOKED), [taken])
    saves = diagnose(EvidenceSet(items=living(silent_s=5.0, phase="checkpoint"), coverage=LOOKED), [taken])
    gone = diagnose(EvidenceSet(items=living(silent_s=5.0, alive=False), coverage=LOOKED), [taken])
    assert (moves.verdict, moves.alive) == (Verdict.UNKNOWN, (0, 1))
    assert "still runs; nothing wrong was found so far" in render_terminal(moves)
    assert (stands.verdict, stands.exit_status) == (Verdict.UNKNOWN, 3)
    assert "why it has stood still for 5 s" in render_terminal(stands)
    assert "nothing wrong was found so far" in render_terminal(saves)
    assert gone.alive == ()


def test_a_supervised_run_without_a_recorded_end_is_not_healthy():
    started = Evidence(fact=StartedWith(variables=()), origin=Origin(source="start.jsonl"))
    exit_ = Evidence(
        fact=ProcessExited(reporter="keepstep run", code=0), origin=Origin(source="exits.jsonl"), rank=Rank(index=0)
    )
    open_ = diagnose(EvidenceSet(items=(started,), coverage=LOOKED), [taken])
    ended = diagnose(EvidenceSet(items=(started, exit_), coverage=LOOKED), [taken])
    assert (open_.verdict, ended.verdict) == (Verdict.UNKNOWN, Verdict.HEALTHY)
    assert "keepstep run has recorded no end yet" in render_terminal(open_)
