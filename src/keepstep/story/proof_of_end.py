# SPDX-License-Identifier: Apache-2.0
"""What proves that each rank ended well: its own words, an exit status, a record. A log that just stops does not. Pure.

Every rank with a log of its own needs a proof; ranks that share one log need one closing line in it. A process that
only serves (a parameter server, a chief's worker) says nothing of an end: the chief's word counts for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import ServerStarted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.training import Phase, PhaseSeen, StepSeen, StreamEnded
from keepstep.model.report import RanksEnd
from keepstep.story.rank_endings import ended_well, ends_of

OWN_WORDS, STATUS, RECORD = "it says that it finished", "exit status 0", "how it ended was recorded"
SERVED = "it served one that says that it finished"


def ends_in_logs(seen: EvidenceSet) -> tuple[RanksEnd, ...]:
    """For each group of ranks whose logs end alike: what proves that they ended well, or that nothing does."""
    units = _units(seen)
    if not units:
        return ()
    everywhere = max((e.at for e in seen.items if e.at is not None), default=None)
    recorded = ended_well(seen)
    said = {key: RECORD if recorded else _proof(seen, streams) for key, streams in units.items()}
    if any(said.values()):
        said |= {key: SERVED for key, streams in units.items() if not said[key] and _only_serves(seen, streams)}
    groups: dict[tuple[object, ...], list[tuple[tuple[int, ...], RanksEnd]]] = defaultdict(list)
    for key, streams in units.items():
        each = _end(seen, streams, said[key], everywhere)
        groups[each.proof, each.step, each.of, None if each.ranks else key].append((each.ranks, each))
    return tuple(_joined([end for _, end in same]) for same in groups.values())


def is_proven(ends: Sequence[RanksEnd]) -> bool:
    """Whether all of them are. Without any log there is nothing to prove."""
    return all(each.proof for each in ends)


def _units(seen: EvidenceSet) -> dict[str, list[Evidence[StreamEnded]]]:
    """Streams that need one proof together: of one rank that has logs of its own, or of one log."""
    sources: dict[str, list[Evidence[StreamEnded]]] = defaultdict(list)
    for each in seen.all(StreamEnded):
        sources[each.origin.source].append(each)
    units: dict[str, list[Evidence[StreamEnded]]] = defaultdict(list)
    for source, streams in sources.items():
        ranks = {each.who for each in streams} - {None}
        units[f"rank {min(r for r in ranks if r is not None)}" if len(ranks) == 1 else source].extend(streams)
    with_ranks = {key: streams for key, streams in units.items() if any(each.who is not None for each in streams)}
    return with_ranks or dict(units)


def _only_serves(seen: EvidenceSet, streams: list[Evidence[StreamEnded]]) -> bool:
    """Whether it is a server of TensorFlow that printed no step of its own."""
    sources = {each.origin.source for each in streams}
    serves = any(e.origin.source in sources for e in seen.all(ServerStarted))
    return serves and not any(e.origin.source in sources for e in seen.all(StepSeen))


def _proof(seen: EvidenceSet, streams: list[Evidence[StreamEnded]]) -> str | None:
    ranks = {each.who for each in streams} - {None}
    if ranks and ranks <= seen.once(ends_of).well.keys():
        return RECORD
    exits = seen.all(ProcessExited)
    left = {e.who for e in exits if e.fact.code == 0 and e.fact.signal is None}
    if ranks and ranks <= left:
        return STATUS
    if not ranks and left and len(left) == len({e.who for e in exits}):  # a log that does not say whose it is
        return STATUS
    return OWN_WORDS if any(_says_so(seen, each) for each in streams) else None


def _says_so(seen: EvidenceSet, end: Evidence[StreamEnded]) -> bool:
    """Whether the stream's program says that it finished, and goes on with no further step."""
    if end.fact.finished is not None:
        return True
    everything = end.origin.line or 0
    said = [e for e in seen.near(end, PhaseSeen, before=everything) if e.fact.phase is Phase.FINISHED]
    steps = seen.near(end, StepSeen, before=everything)
    return bool(said) and not any((e.origin.line or 0) > (said[-1].origin.line or 0) for e in steps)


def _end(
    seen: EvidenceSet, streams: list[Evidence[StreamEnded]], proof: str | None, everywhere: float | None
) -> RanksEnd:
    steps = [e for end in streams for e in seen.near(end, StepSeen, before=end.origin.line or 0)]
    times = sorted(e.at for e in (*streams, *steps) if e.at is not None)
    last = next((e for e in reversed(steps) if e.fact.step is not None), None)
    ranks = tuple(sorted({each.who for each in streams if each.who is not None}))
    return RanksEnd(
        ranks=ranks,
        log=None if ranks else streams[0].origin.source,
        proof=proof,
        step=last.fact.step if last is not None else None,
        of=last.fact.of if last is not None else None,
        at=times[-1] if times else None,
        silent_s=everywhere - times[-1] if times and everywhere is not None else None,
        usual_s=_usual(steps),
    )


def _usual(steps: Sequence[Evidence[Fact]]) -> float | None:
    times = sorted({e.at for e in steps if e.at is not None})
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return median(gaps) if len(gaps) >= 2 else None


def _joined(ends: list[RanksEnd]) -> RanksEnd:
    first = ends[0]
    if len(ends) == 1:
        return first
    latest = max(ends, key=lambda each: each.at or 0.0)
    usual = [each.usual_s for each in ends if each.usual_s is not None]
    return RanksEnd(
        ranks=tuple(sorted({rank for each in ends for rank in each.ranks})),
        log=first.log,
        proof=first.proof,
        step=first.step,
        of=first.of,
        at=latest.at,
        silent_s=latest.silent_s,
        usual_s=median(usual) if usual else None,
    )
