# SPDX-License-Identifier: Apache-2.0
"""The collectives of a run as a program of their own: the same groups, order, shapes and types on each rank. Pure.

What a rank issued comes from the guards' notes, which hold torch's own record, and from the black box of a rank that
died before it could write one. Who was the source of a broadcast is not recorded: it is the group's first rank.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

from keepstep.shrink.program import Place
from keepstep.shrink.same_failure import Failure, difference, without_places
from keepstep.signals.collective_history import OBJECTS, SCRIPTS, key

WORLD = "0"
WORDS = re.compile(r"(\w+)(?: ([a-z]\w*)(?:\[([\d, ]*)\]|, (\d+) elements?))?(?: ([A-Z]+))?")
GUARDS_OWN = "OutOfStep"
"""Its message names lines of the program."""
CALLS = {
    "all_reduce": "all_reduce({tensor}{reduction}{group})",
    "broadcast": "broadcast({tensor}, {first}{group})",
    "reduce": "reduce({tensor}, {first}{reduction}{group})",
    "all_gather": "all_gather([{tensor} for _ in range({size})], {tensor}{group})",
    "gather": "gather({tensor}, [{tensor} for _ in range({size})] if rank == {first} else None, {first}{group})",
    "scatter": "scatter({tensor}, [{tensor} for _ in range({size})] if rank == {first} else None, {first}{group})",
    "all_to_all": "all_to_all_single({tensor}, {tensor}{group})",
    "barrier": "barrier({only})",
    "monitored_barrier": "monitored_barrier({only})",
    "all_gather_object": "all_gather_object([None] * {size}, rank{group})",
    "broadcast_object_list": "broadcast_object_list([rank], {first}{group})",
}


class Call(NamedTuple):
    """One collective of one rank."""

    group: str
    sequence: int
    key: str
    words: str
    line: str


@dataclass(frozen=True)
class Issued:
    """What each rank issued, in its order; and the ranks of each group."""

    by_rank: Mapping[int, Sequence[Call]]
    members: Mapping[str, tuple[int, ...]]

    def at(self, place: Place) -> bool | None:
        """Whether a collective was issued there; None: no lines are known."""
        lines = {call.line.partition(",")[0] for calls in self.by_rank.values() for call in calls if call.line}
        return f"{os.path.basename(place[0])}:{place[1]}" in lines if lines else None

    def last(self) -> dict[int, tuple[str, str]]:
        """The kind of the collective that each rank was in last, and its number after the first that is known."""
        first = {call.group: call.sequence for calls in self.by_rank.values() for call in reversed(calls)}
        return {
            rank: (calls[-1].key, str(calls[-1].sequence - first[calls[-1].group]))
            for rank, calls in self.by_rank.items()
            if calls
        }


def issued_in(notes: Sequence[Mapping[str, Any]], world: int) -> Issued | None:
    """From what ranks noted, oldest first; None if too little is known."""
    groups: dict[str, dict[int, dict[int, Call]]] = defaultdict(dict)
    members: dict[str, tuple[int, ...]] = {WORLD: tuple(range(world))}
    boxes: dict[int, list[Call]] = {}
    for note in notes:
        calls = [Call(note["group"], *each) for each in note["issued"]]
        if note["group"] == SCRIPTS:
            boxes[note["rank"]] = calls
        elif calls:
            groups[note["group"]][note["rank"]] = {call.sequence: call for call in calls}
            members.setdefault(note["group"], tuple(note["members"]))
    if set(groups) <= {WORLD}:
        for rank, box in boxes.items():
            if not box:
                continue
            mine = groups[WORLD].setdefault(rank, {})
            for call in box:
                mine.setdefault(call.sequence, call._replace(group=WORLD))
    told = {rank for ranks in groups.values() for rank in ranks}
    if told != set(range(world)) or not all(members[group] for group in groups):
        return None
    for ranks in groups.values():
        _fill(ranks)
    return Issued({rank: list(_in_order(rank, groups, boxes.get(rank, []))) for rank in sorted(told)}, members)


def _fill(ranks: dict[int, dict[int, Call]]) -> None:
    """What one rank's record lacks was as on the others, or the run would have ended there. Older ones are dropped."""
    known: dict[int, Call] = {}
    for call in (call for calls in ranks.values() for call in calls.values()):
        if call.sequence not in known or "[" in call.words:  # a black box has no shape
            known[call.sequence] = call
    for calls in ranks.values():
        for number in sorted(n for n in known if n <= max(calls)):
            mine = calls.setdefault(number, known[number])
            if mine.key == known[number].key:
                calls[number] = mine._replace(words=known[number].words)
    first = 1 + max((n for calls in ranks.values() for n in range(min(known), max(calls)) if n not in calls), default=0)
    for rank, calls in ranks.items():
        ranks[rank] = {number: calls[number] for number in sorted(calls) if number >= first}


def _in_order(rank: int, groups: Mapping[str, Mapping[int, Mapping[int, Call]]], box: Sequence[Call]) -> Iterator[Call]:
    """The calls of all groups, in the order in which the script's own were issued."""
    waiting = {group: list(ranks[rank].values()) for group, ranks in groups.items() if rank in ranks}
    for own in box if len(waiting) > 1 else ():
        for calls in waiting.values():
            at = next((n for n, call in enumerate(calls) if _is(call, own)), None)
            if at is not None:
                yield from calls[: at + 1]
                del calls[: at + 1]
                break
    for calls in waiting.values():
        yield from calls


def _is(call: Call, own: Call) -> bool:
    return (call.sequence, call.key, call.line.partition(",")[0]) == (own.sequence, own.key, own.line)


def program_of(issued: Issued) -> str | None:
    """The program; None if a collective is of a kind that is not written."""
    names = {group: f"group_{n}" for n, group in enumerate(sorted(set(issued.members) - {WORLD}), 1)}
    texts: dict[int, list[str]] = {}
    for rank, calls in issued.by_rank.items():
        written = [_text(call, issued.members[call.group], names) for call in _once(calls)]
        texts[rank] = [text for text in written if text is not None]
        if len(texts[rank]) < len(written):
            return None
    lines = ["import torch", "import torch.distributed as dist", "", 'dist.init_process_group("gloo")']
    lines.append("rank = dist.get_rank()")
    lines += [f"{name} = dist.new_group({list(issued.members[group])})" for group, name in names.items()]
    alike = 0
    while len({text[alike] if alike < len(text) else rank for rank, text in texts.items()}) == 1:
        alike += 1
    lines += _repeated(next(iter(texts.values()))[:alike], 0)
    apart: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, text in texts.items():
        apart[tuple(text[alike:])].append(rank)
    for rest, ranks in apart.items():
        if rest:
            lines += [f"if rank {f'in {ranks}' if len(ranks) > 1 else f'== {ranks[0]}'}:", *_repeated(rest, 4)]
    return "\n".join(lines) + "\n"


def _once(calls: Sequence[Call]) -> Iterator[Call]:
    """Python objects take two numbers, one for their sizes, under one call."""
    before: Call | None = None
    for call in calls:
        second = before is not None and (call.group, call.words, call.line) == (before.group, before.words, before.line)
        before = None if second and call.words in OBJECTS else call
        if before is not None:
            yield call


def _text(call: Call, members: tuple[int, ...], names: Mapping[str, str]) -> str | None:
    found = WORDS.fullmatch(call.words)
    if found is None:
        return None
    operation, dtype, shape, elements, reduction = found.groups()
    form = CALLS.get(operation) or CALLS.get(key(operation).partition(" ")[0])
    if form is None or ("{tensor}" in form and dtype is None):
        return None
    name = names.get(call.group)
    kind = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    size = elements if shape is None else shape or "()"
    return "dist." + form.format(
        tensor=f"torch.zeros({size}{kind})",
        reduction=f", dist.ReduceOp.{reduction}" if reduction else "",
        first=members[0],
        size=len(members),
        group=f", group={name}" if name else "",
        only=name or "",
    )


def _repeated(texts: Sequence[str], indent: int) -> Iterator[str]:
    margin = " " * indent
    for text, same in groupby(texts):
        times = len(list(same))
        if times > 2:
            yield from (f"{margin}for _ in range({times}):", f"{margin}    {text}")
        else:
            yield from [margin + text] * times


def difference_alone(wanted: Failure, found: Failure | None, before: Issued, now: Issued | None) -> str | None:
    """Why the collectives alone do not fail as the program did. For the user's line stand the last collectives."""
    if found is None or now is None:
        return "it did not fail"
    bare = [without_places(each) for each in (wanted, found)]
    if wanted.raised == GUARDS_OWN:
        bare = [replace(each, words=None) for each in bare]
    if why := difference(*bare):
        return why
    return None if before.last() == now.last() else f"collectives: {now.last()}"
