# SPDX-License-Identifier: Apache-2.0
"""Where ranks differ in what the guard made them state: as the guard found, or by what each rank wrote down."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from keepstep.rules.api import ContractBroken, ContractStated, Evidence, EvidenceSet, Fact, shorten
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.own_exception import left_by_own_exception
from keepstep.signals.contracts import Difference, Subject, differences, lines


@dataclass(frozen=True)
class BrokenContract:
    """One contract that ranks broke: all its differences, with their evidence."""

    subject: str
    differences: tuple[Difference, ...]
    evidence: tuple[Evidence[Fact], ...]
    certain: bool
    before: bool
    where: dict[int, str] = field(default_factory=dict)
    """The lines of code of the ranks that differ."""
    left: tuple[int, ...] = ()
    """The ranks that departed from what all did before, if known."""

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks that differ in any of it."""
        return self.left or tuple(sorted({rank for each in self.differences for rank in each.odd}))

    @property
    def words(self) -> str:
        """The first difference: what, and both values."""
        return shorten(str(self.differences[0]), 160)

    @property
    def lines(self) -> str:
        """Their lines, to follow their names: ``, at train.py:50``."""
        told = list(dict.fromkeys(self.where[rank] for rank in self.odd if rank in self.where))
        return f", at {', '.join(told[:3])}" if told else ""

    @property
    def who(self) -> str:
        return say_ranks(self.odd)


def broken_contracts(seen: EvidenceSet, *subjects: str) -> list[BrokenContract]:
    """The broken contracts whose subject begins with one of these words, earliest first."""
    found: dict[tuple[str, int], list[Evidence[ContractBroken]]] = defaultdict(list)
    left = left_by_own_exception(seen)
    for told in seen.all(ContractBroken):
        if _is_about(told.fact.subject, subjects) and not _of_one_who_left(told.fact, left):
            found[told.fact.subject, told.fact.ordinal].append(told)
    stated = _by_statements(seen, subjects)
    for key in [
        key for key in found if key[1] < 0 and any(key[0] == subject for subject, n in (*found, *stated) if n >= 0)
    ]:
        del found[key]  # the log repeats what the guard wrote down
    result = [_told(subject, each) for (subject, _), each in found.items()]
    result += [each for key, each in stated.items() if key not in found]
    return result


def _of_one_who_left(fact: ContractBroken, left: frozenset[int]) -> bool:
    """Whether a collective differs because a rank ran it on its way out."""
    return fact.subject.split(" ", 1)[0] == Subject.COLLECTIVE and any(
        rank in left for _, ranks in fact.values for rank in ranks
    )


def _is_about(subject: str, words: tuple[str, ...]) -> bool:
    return subject.split(" ", 1)[0] in words


def _told(subject: str, told: list[Evidence[ContractBroken]]) -> BrokenContract:
    by_what = {e.fact.what: Difference(e.fact.what, e.fact.values) for e in told}
    return BrokenContract(
        subject=subject,
        differences=tuple(by_what.values()),
        evidence=tuple(told),
        certain=any(e.fact.certain for e in told),
        before=any(e.fact.before for e in told),
        where={rank: line for e in told for rank, line in e.fact.places},
        left=tuple(sorted({rank for e in told for rank in e.fact.odd})),
    )


def _by_statements(seen: EvidenceSet, subjects: tuple[str, ...]) -> dict[tuple[str, int], BrokenContract]:
    """What each guard wrote down: it does so even if the guards could not reach each other."""
    sides: dict[tuple[str, int], dict[int, Evidence[ContractStated]]] = defaultdict(dict)
    for stated in seen.all(ContractStated):
        if stated.who is not None and _is_about(stated.fact.subject, subjects):
            sides[stated.fact.subject, stated.fact.ordinal][stated.who] = stated
    found = {}
    for (subject, ordinal), by_rank in sides.items():
        said = {rank: dict(e.fact.stated) for rank, e in by_rank.items()}
        differ = differences(said)
        if differ:
            found[subject, ordinal] = BrokenContract(
                subject=subject,
                differences=differ,
                evidence=tuple(by_rank[rank] for rank in sorted(by_rank))[:8],
                certain=any(e.fact.certain for e in by_rank.values()),
                before=False,
                where=lines(said, differ),
            )
    return found
