# SPDX-License-Identifier: Apache-2.0
"""The first rank to end, if its program ended it (`sys.exit(3)`, `raise SystemExit("...")`) and nothing says why."""

from __future__ import annotations

from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.guard import RankEnded, RankRaised
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.training import StreamEnded
from keepstep.rules.asking.matched_messages import says_why
from keepstep.signals.own_words import own_words
from keepstep.story.first_rank import CLEARLY_EARLIER_S
from keepstep.story.rank_endings import SUPERVISOR, ends_of, raised_by

SIGNALS = 126
"""From here on, an exit code says that a shell could not start it, or reports a signal."""
Left = Evidence[RankEnded] | Evidence[ProcessExited]


def left_by_itself(seen: EvidenceSet) -> Left | None:
    """By its goodbye, else by what `keepstep run` reported."""
    return seen.once(_left_by_itself)


def _left_by_itself(seen: EvidenceSet) -> Left | None:
    ends = seen.once(ends_of)
    ended: list[Left] = [*ends.badly.values(), *ends.silent.values()]
    if not ended:
        ended = [e for e in seen.bad_exits if e.fact.reporter == SUPERVISOR]
    first = min(ended, key=lambda e: e.at or 0.0, default=None)
    if first is None or not _chose_to(first) or first.who is None or raised_by(seen, first.who):
        return None
    if any(e.who == first.who for e in seen.all(RankRaised)) or _says_why(seen, first.who):
        return None
    others = [e for e in ended if e is not first and e.at is not None and first.at is not None]
    return first if all((e.at or 0.0) - (first.at or 0.0) >= -CLEARLY_EARLIER_S for e in others) else None


def _chose_to(end: Left) -> bool:
    fact = end.fact
    if isinstance(fact, RankEnded):
        return fact.goodbye and not fact.raised and 0 < (fact.status or 0) < SIGNALS
    return fact.signal is None and 0 < (fact.code or 0) < SIGNALS


def _says_why(seen: EvidenceSet, rank: int) -> bool:
    """Whether the rank's own output has a message that a table knows."""
    logs = {e.origin.writer for e in seen.all(StreamEnded) if e.who == rank}
    return any(
        e.who == rank and e.origin.writer in logs and says_why(e.fact) and not seen.survived(e) for e in seen.items
    )


def last_words(seen: EvidenceSet, rank: int | None) -> tuple[Evidence[StreamEnded], str] | None:
    """What a rank printed last, if it is no progress line."""
    for end in reversed(seen.all(StreamEnded)):
        if rank is not None and end.who == rank:
            said = own_words(end.fact)[:1]
            return (end, said[0]) if said and said[0] and not _counts(said[0]) else None
    return None


def _counts(line: str) -> bool:
    """Whether a line reports progress: it has a step and a number."""
    lower = line.lower()
    return any(word in lower for word in ("step", "epoch", "loss", "iter", "batch")) and any(c.isdigit() for c in line)
