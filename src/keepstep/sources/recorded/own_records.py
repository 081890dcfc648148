# SPDX-License-Identifier: Apache-2.0
"""What keepstep itself left behind: the guards' black boxes and notes, and the supervisor's evidence."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.exit_file import left_with
from keepstep.base.proc_stat import read_stat
from keepstep.base.wording import count
from keepstep.model.codec import from_dict
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.compared import PaceChanged
from keepstep.model.facts.guard import (
    ChildLost,
    CollectivesIssued,
    GuardPart,
    PlanNamed,
    RankDoing,
    RankEnded,
    RankLate,
    WorldFormed,
)
from keepstep.model.identity import HostPid, Rank
from keepstep.signals import blackbox, collective_history
from keepstep.signals.blackbox import BlackBox, Doing, RecordKind
from keepstep.signals.pace import LateRank, input_and_step, late_by_durations, late_ranks
from keepstep.signals.pace_jump import jump_in
from keepstep.sources.files.left_files import FileKind, LeftFile
from keepstep.sources.recorded.node_folders import on_host

MOST_NOTES = 32 << 20
MOST_ISSUED = 40
MOST_WHOLE, RECORDS, LEAST_RECORDS = 64, 400_000, 400
"""Of more boxes than these, only the newest records are read: so many of all together, and at least so many of each."""
EARLIER_S = 60.0
"""A box that ended this long before the others began is from an earlier run."""


@dataclass(frozen=True)
class _Read:
    left: LeftFile
    box: BlackBox
    did: Doing | None
    alive: bool
    unknown: bool = False
    """Whether it lives cannot be known: its host has not been heard of since."""

    @property
    def rank(self) -> int | None:
        value = self.box.who.get("rank")
        return value if isinstance(value, int) else None

    @property
    def run(self) -> object:
        """What the ranks of one run have in common; None for a rank that had not met the others."""
        return self.box.who.get("run")

    @property
    def began(self) -> float:
        return float(self.box.who.get("wall") or 0.0)

    @property
    def ended(self) -> float:
        return self.box.wall(self.box.records[-1].at) if self.box.records else self.began


def read_own(files: Iterable[LeftFile]) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """The newest run's boxes and notes as evidence, and what they could not show."""
    files = list(files)
    boxes, coverage = [], []
    number = sum(left.kind is FileKind.BLACK_BOX for left in files)
    most = None if number <= MOST_WHOLE else max(LEAST_RECORDS, RECORDS // number)
    for left in files:
        if left.kind is FileKind.BLACK_BOX:
            try:
                boxes.append(_open(left, most))
            except (OSError, blackbox.NotABox) as error:
                why = str(getattr(error, "strerror", None) or error)
                coverage.append(Coverage(what=f"black box {left.name}", state=CoverageState.UNAVAILABLE, why=why))
    newest = _of_newest_run(boxes)
    stale = {_stem(each.left.name) for each in boxes} - {_stem(each.left.name) for each in newest}
    notes: list[Evidence[Fact]] = []
    for left in files:
        if left.kind is FileKind.NOTES and _stem(left.name) not in stale:
            found, problem = _notes(left)
            notes += found
            coverage += problem
    notes = _corrected(notes, newest)
    plans = {(e.who, e.fact.number): e.fact.name for e in notes if isinstance(e.fact, PlanNamed)}
    items = (
        [e for each in newest for e in (*_doing(each, plans), *_issued(each))]
        + _late(newest)
        + _slowed(newest, notes)
        + _side_by_side(boxes)
        + notes
    )
    items += _ends(newest, {e.fact.pid for e in notes if isinstance(e.fact, RankEnded)})
    if newest:
        damaged = sum(each.box.damaged for each in newest)
        why = f"{count(damaged, 'record')} damaged, the rest was read" if damaged else ""
        coverage.append(
            Coverage(what=count(len(newest), "black box", "black boxes"), state=CoverageState.CHECKED, why=why)
        )
    coverage += _parts(notes)
    return items, coverage


def _open(left: LeftFile, most: int | None) -> _Read:
    with left.open() as stream:
        box = blackbox.read(stream.read(blackbox.MOST_BYTES), most)
    did, node = blackbox.doing(tuple(reversed(box.records))), left.node
    if node is None:
        return _Read(left, box, did, is_alive(box.who))
    pid, wall = box.who.get("pid"), box.who.get("wall")
    alive = is_alive(box.who) if node.living is None else pid in node.living
    placed = {"host": node.host, "wall": wall - node.ahead_s if isinstance(wall, int | float) else wall}
    if isinstance(pid, int):
        placed["pid"] = HostPid(pid, node.host)
    known = node.living is None or node.fresh
    return _Read(left, replace(box, who={**box.who, **placed}), did, alive and known, alive and not known)


def is_alive(who: dict[str, Any]) -> bool:
    """Whether the process that wrote it is still alive: on this host, and not a later one with the same pid."""
    pid = who.get("pid")
    if not isinstance(pid, int) or who.get("host") != socket.gethostname()[:120]:
        return False
    found = read_stat(pid)
    if found is None or not found.lives:
        return False
    if isinstance(who.get("started"), int):  # needs no clock, and a process's clock may be wrong
        return bool(found.started == who["started"])
    began, wall = found.began(), who.get("wall") or 0.0
    return began is not None and isinstance(wall, int | float) and began <= wall + 2.0


def _of_newest_run(boxes: list[_Read]) -> list[_Read]:
    """Without boxes that a later process of the same rank replaced, and those of earlier runs."""
    latest: dict[int | None, _Read] = {}
    unranked = [each for each in boxes if each.rank is None]
    for each in boxes:
        if each.rank is not None and (each.rank not in latest or _replaces(each, latest[each.rank])):
            latest[each.rank] = each
    kept = [each for each in boxes if each.rank is not None and latest[each.rank] is each]
    kept += unranked if not kept else []
    if not kept:
        return []
    newest = max(each.began for each in kept)
    run = next((each.run for each in kept if each.began == newest), None)
    kept = [each for each in kept if run is None or each.run in (None, run)]
    return [each for each in kept if each.alive or each.left.node is not None or each.ended >= newest - EARLIER_S]


def _replaces(one: _Read, other: _Read) -> bool:
    """Whether one process replaced the other as a rank: it came later, and is not a helper that never trained."""
    trained, other_trained = (bool(each.did and each.did.steps) for each in (one, other))
    if trained is not other_trained and _overlap(one, other):
        return trained
    return one.began > other.began


def _doing(read: _Read, plans: dict[tuple[int | None, int], str]) -> list[Evidence[Fact]]:
    did, box = read.did, read.box
    if did is None:
        return []
    now = max(did.last, did.beat or 0)
    if read.alive:
        sent = read.left.node is not None and read.left.node.living is not None
        now = read.left.node.looked_ns if sent and read.left.node is not None else time.monotonic_ns()
    pace = input_and_step(box.records)
    fact = RankDoing(
        phase=did.phase.name.lower(),
        steps=did.steps,
        in_phase_s=round(max(0, now - did.since) / 1e9, 3),
        silent_s=round(max(0, now - did.last) / 1e9, 3),
        usual_step_s=round(did.usual_ns / 1e9, 6) if did.usual_ns else None,
        plan=plans.get((read.rank, did.plan)) if did.plan is not None else None,
        collective=did.collective,
        alive=read.alive,
        pid=box.who.get("pid") if isinstance(box.who.get("pid"), int) else None,
        input_s=round(pace[0] / 1e9, 6) if pace is not None else None,
        world=box.who.get("world") if isinstance(box.who.get("world"), int) else None,
    )
    quote = f"{did.phase.words} after {count(did.steps, 'step')}"
    if fact.silent_s and fact.silent_s >= 1.0:
        quote += f", without progress for {fact.silent_s:.1f} s"
    origin = Origin(source=read.left.name)
    return [Evidence(fact=fact, origin=origin, rank=_rank(read), at=box.wall(now), quote=quote)]


def _rank(read: _Read) -> Rank | None:
    who = read.box.who
    if read.rank is None:
        return None
    return Rank(
        index=read.rank,
        node=who["host"] if isinstance(who.get("host"), str) else None,
        role=who["role"] if isinstance(who.get("role"), str) else None,
        attempt=who["attempt"] if isinstance(who.get("attempt"), int) else 0,
    )


def _corrected(notes: list[Evidence[Fact]], boxes: list[_Read]) -> list[Evidence[Fact]]:
    """The goodbyes, with each process's real exit status."""
    known = {
        read.box.who.get("pid"): status
        for read in boxes
        if (status := read.left.path is not None and left_with(read.left.path))
    }
    items: list[Evidence[Fact]] = []
    for each in notes:
        if isinstance(each.fact, RankEnded) and each.fact.status == 0 and (status := known.get(each.fact.pid)):
            quote = f"ended with status {status} after {count(each.fact.steps, 'step')}"
            each = replace(each, fact=replace(each.fact, status=status), quote=quote)
        items.append(each)
    return items


def _ends(boxes: list[_Read], told: set[int | None]) -> list[Evidence[Fact]]:
    """How the ended processes ended, by their boxes; ``told``: those that recorded it themselves."""
    found: list[Evidence[Fact]] = []
    for read in boxes:
        who, records = read.box.who, read.box.records
        if read.alive or read.unknown or read.did is None or who.get("pid") in told:
            continue
        goodbye = next((r for r in reversed(records) if r.kind == blackbox.RecordKind.GOODBYE), None)
        status = read.left.path is not None and left_with(read.left.path)
        left = goodbye is not None or status is not None
        before = next(
            (p for p in reversed(records) if p.kind == blackbox.RecordKind.PHASE and p.value != blackbox.BoxPhase.END),
            None,
        )
        fact = RankEnded(
            goodbye=left,
            steps=read.did.steps,
            status=status if status is not None else goodbye.value if goodbye is not None else None,
            phase=blackbox.phase_of(before.value).name.lower() if before is not None else None,
            pid=who["pid"] if isinstance(who.get("pid"), int) else None,
            killed_as=who["killed_as"] if isinstance(who.get("killed_as"), str) else None,
            in_training=who.get("in_training") is True,
            world=who["world"] if isinstance(who.get("world"), int) else None,
        )
        quote = f"the black box ends at step {fact.steps} " + ("with" if left else "without") + " a goodbye"
        quote += f", with status {status}" if status else ""
        origin = Origin(source=read.left.name)
        found.append(Evidence(fact=fact, origin=origin, rank=_rank(read), at=read.ended, quote=quote))
    return found


def _issued(read: _Read) -> list[Evidence[Fact]]:
    """The last collectives that a rank's script issued, on any group."""
    issued = []
    files = found if isinstance(found := read.box.who.get("files"), list) else []
    for record in read.box.records:
        parts = collective_history.parts(record.extra) if record.kind == RecordKind.COLLECTIVE else None
        if parts is not None:
            file, line = collective_history.placed(record.spare)
            name = str(files[file - 1]) if 0 < file <= len(files) else ""
            issued.append(
                (
                    record.value,
                    collective_history.key(*parts),
                    collective_history.unpacked(record.extra),
                    f"{name}:{line}" if name and line else "",
                )
            )
    if not issued or read.rank is None or read.did is None:
        return []
    number, _, words, place = issued[-1]
    fact = CollectivesIssued(
        group=collective_history.SCRIPTS, issued=tuple(issued[-MOST_ISSUED:]), steps=read.did.steps
    )
    quote = f"#{number}: {words}{f' at {place}' if place else ''}"
    return [
        Evidence(
            fact=fact,
            origin=Origin(source=read.left.name),
            rank=Rank(index=read.rank),
            at=read.box.wall(read.box.records[-1].at),
            quote=quote,
        )
    ]


def _overlap(one: _Read, other: _Read) -> bool:
    """Whether two processes trained at the same time: on one host by its clock, in one attempt by the leader's."""
    if not one.box.records or not other.box.records:
        return False
    if one.left.node is not None and other.left.node is not None and one.left.node != other.left.node:
        return one.began < other.ended and other.began < one.ended
    if one.box.who.get("host") != other.box.who.get("host"):
        return False
    return one.box.records[0].at < other.box.records[-1].at and other.box.records[0].at < one.box.records[-1].at


def _side_by_side(boxes: list[_Read]) -> list[Evidence[Fact]]:
    """Processes that trained at the same time, each as the only rank or the same rank of its world."""
    alone = [
        each for each in boxes if each.rank == 0 and each.box.who.get("world") == 1 and each.did and each.did.steps
    ]
    together = [
        one for one in alone
        if any(one is not other and _overlap(one, other) for other in alone)
    ]  # fmt: skip
    return [
        Evidence(
            fact=WorldFormed(size=1, meant=len(together), meant_by="the folder of the guards", at_step=True),
            origin=Origin(source=each.left.name),
            at=each.began,
            quote=f"pid {each.box.who.get('pid')} trained as rank 0 of 1, "
            f"beside {len(together) - 1} others in its folder",
        )
        for each in together
    ]


def _late(boxes: list[_Read]) -> list[Evidence[Fact]]:
    """The rank that kept the others waiting: by durations among all ranks, else by the clock of one host."""
    ranked = {each.rank: each for each in boxes if each.rank is not None}
    late = late_by_durations({rank: each.box.records for rank, each in ranked.items()})
    for host in dict.fromkeys(each.box.who.get("host") for each in ranked.values()) if not late else ():
        late += late_ranks(
            {rank: each.box.records for rank, each in ranked.items() if each.box.who.get("host") == host}
        )
    return [_lateness(ranked[each.rank], each) for each in late]


def _slowed(boxes: list[_Read], notes: list[Evidence[Fact]]) -> list[Evidence[Fact]]:
    """Steps that became many times slower and stayed so: one rank's, best of one that had lost a child."""
    bereft = {e.who for e in notes if isinstance(e.fact, ChildLost)}
    for read in sorted(boxes, key=lambda each: (each.rank not in bereft, each.rank or 0)):
        if (jump := jump_in(read.box.records)) is not None:
            fact = PaceChanged(before_s=jump.before_s, after_s=jump.after_s, step=jump.step)
            origin, at = Origin(source=read.left.name), read.box.wall(jump.began)
            return [Evidence(fact=fact, origin=origin, rank=_rank(read), at=at, quote=jump.words)]
    return []


def _lateness(read: _Read, late: LateRank) -> Evidence[Fact]:
    fact = RankLate(
        phase=late.phase.name.lower(),
        seconds=late.seconds,
        usual_s=late.others_s,
        against="peers",
        steps=late.steps,
        step_s=late.step_s,
        before_s=late.before_s,
        held=late.held,
    )
    origin = Origin(source=read.left.name)
    return Evidence(fact=fact, origin=origin, rank=Rank(index=late.rank), at=read.ended, quote=late.words)


def _notes(left: LeftFile) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """The readable lines; one that was half written when its process died is skipped."""
    try:
        with left.open() as stream:
            text = stream.read(MOST_NOTES).decode(errors="replace")
    except OSError as error:
        why = error.strerror or "it cannot be read"
        return [], [Coverage(what=left.name, state=CoverageState.UNAVAILABLE, why=why)]
    found, damaged = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            each = from_dict(foreign_json.loads(line))
        except ValueError:
            damaged += 1
            continue
        # stacks come from their process, which names its parent
        source = each.origin.source if each.origin.source.startswith("pid ") else left.name
        if left.node is not None:
            each = on_host(each, left.node)
            source = f"{source} on {left.node.host}" if source != left.name else source
        found.append(
            replace(each, origin=replace(each.origin, source=source, line=number if source == left.name else None))
        )
    what = f"{count(damaged, 'line')} of {left.name}"
    return found, [Coverage(what=what, state=CoverageState.UNAVAILABLE, why="damaged")] if damaged else []


def _parts(notes: list[Evidence[Fact]]) -> list[Coverage]:
    """What the guards could not check, each once."""
    told: dict[tuple[str, str], set[int]] = {}
    for each in notes:
        if isinstance(each.fact, GuardPart):
            told.setdefault((each.fact.part, each.fact.why), set()).add(each.who if each.who is not None else -1)
    return [Coverage(what=f"guard: {part}", state=CoverageState.UNAVAILABLE, why=why) for part, why in list(told)[:20]]


def _stem(name: str) -> str:
    return name.removesuffix(".notes.jsonl").removesuffix(".box")
