# SPDX-License-Identifier: Apache-2.0
"""The guard's thread looks at the groups' sequence numbers; a rank without progress tells its peers what it waits in.

The first rank of each group compares. A difference is reported within a second; torch would wait for half an hour.
"""

from __future__ import annotations

import json
import mmap
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.torch.collectives import recorder
from keepstep.guard.adapters.torch.collectives.pace import TorchPace
from keepstep.guard.adapters.torch.collectives.position import MOST_GROUPS, Position
from keepstep.guard.adapters.torch.collectives.trains_apart import Alone
from keepstep.guard.adapters.torch.compare_collectives import WAITS, RankWord, mismatch
from keepstep.guard.record.named_pauses import STEPPING, STILL_S, enter_pause
from keepstep.signals import blackbox
from keepstep.signals.blackbox import BoxPhase, RecordKind
from keepstep.signals.box_files import open_box
from keepstep.signals.collective_history import Mismatch, unpacked
from keepstep.signals.contracts import Subject

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.issued_collective import IssuedCollective
    from keepstep.guard.adapters.torch.torch_state import TorchState
    from keepstep.guard.protocols import FormsWorld

_COLLECTIVE = int(RecordKind.COLLECTIVE)
TOPIC = "collective"
GROUPED = "collective in groups"
"""Instead, from a rank whose group does not begin with rank 0: then other ranks hear it too (evidence/relay.py)."""
PERIOD_S = 0.2
WAIT_TOLD_S = 0.6
COMPLETE_S = 0.8
"""The longest wait for messages from all ranks before what is known is reported."""
TRAILS_TOLD_S = 1.0
MOST_TRAILS_TOLD, NOTED = 20, 40
"""How often a rank writes down its last collectives, and how many of them."""
SMALL_WORLD = 64
FAILURE_WAIT_S = 1.0
LONG_S = 3600.0
"""A rank whose collective failed makes no progress: this is what its peers see."""
MOST_WAITS_TOLD = 20
_BY_DESIGN = (BoxPhase.START, BoxPhase.COMPILE, BoxPhase.CHECKPOINT, BoxPhase.EVALUATION, BoxPhase.RETRY)
QUIET = tuple(map(int, _BY_DESIGN))
"""A rank in these phases keeps others waiting by design."""


def begin(state: TorchState) -> None:
    """A world has been formed: look after its groups."""
    if state.watch is None:
        state.watch = TorchWatch(state)
        state.session.pulse.every(PERIOD_S, "collectives watch", state.watch.tick)
    state.watch.restart()


class TorchWatch:
    """Called five times per second by the guard's thread; takes microseconds while the run makes progress."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self._told: set[tuple[str, int]] = set()
        self._waits_told = 0
        self._wait_told_at = -1
        self._pace = TorchPace(state)
        self._alone = Alone(state)
        self._position = Position(state)
        self._trails_told = 0
        state.session.at_close.append(self.leave)
        self.restart()

    def before_end(self) -> None:
        """The world is about to be destroyed by the script."""
        if self._state.world > 1:
            self._alone.before_end()

    def restart(self) -> None:
        self._mark: tuple[Any, ...] = ()
        self._told_at: tuple[Any, ...] = ()
        self._since = time.monotonic()
        self._steps_at = (0, self._since)
        self._usual = 0.0
        self._published = 0.0
        self._next = 0.0
        self._looked_for_pause = False
        self._position.restart()

    def tick(self) -> None:
        state, now = self._state, time.monotonic()
        sequences = self._position.sequences()
        if sequences is None:
            return
        self._position.look()
        if state.world > 1:
            self._alone.look()
            doing, line = self._position.where()
            self._pace.sample(doing, line, self._usual)
        mark = (sequences, self._session.steps, state.loaders.turns)
        if mark != self._mark:
            self._moved(mark, now)
            return
        still = now - self._since
        limit = STILL_S if state.world <= SMALL_WORLD else max(STILL_S, 2 * self._usual)
        if still >= STILL_S and not self._looked_for_pause:
            self._looked_for_pause = True
            enter_pause(self._session, self._state.thread)
        if still < limit or now < self._next or state.world < 2 or state.store is None or not state.store.alive():
            return
        self._next = now + (0.0 if still < 2.0 else min(still / 4, 5.0))
        self.publish(sequences, still)
        if self._told_at != self._mark and still >= max(TRAILS_TOLD_S, 3 * self._usual):
            self._told_at = self._mark
            self.tell_trails(sequences)
        if state.rank() == 0 or self._position.is_first_of_a_group():
            self.compare(sequences, still, last=still >= COMPLETE_S)

    def _moved(self, mark: tuple[Any, ...], now: float) -> None:
        steps, then = self._steps_at
        if mark[1] > steps:
            took = (now - then) / (mark[1] - steps)
            self._usual = took if not self._usual else 0.7 * self._usual + 0.3 * took
            self._steps_at = (mark[1], now)
        if self._mark and mark[0] != self._mark[0] and mark[0]:
            self._session.write(_COLLECTIVE, next(iter(mark[0].values())), 0)
        self._mark, self._since, self._next, self._looked_for_pause = mark, now, 0.0, False
        if self._published:
            self._published = 0.0
            if self._state.store is not None and self._state.store.alive():
                self._say(RankWord(steps=mark[1]))

    def publish(self, sequences: dict[str, int], still: float) -> RankWord:
        word = self.word(sequences, still)
        self._published = still
        self._say(word)
        return word

    def _say(self, word: RankWord) -> None:
        topic = GROUPED if self._position.is_in_a_group_of_others() else TOPIC
        self._session.tell_peers(topic, json.dumps(word.to_dict()))

    def compare(self, sequences: dict[str, int], still: float, *, last: bool) -> bool:
        """Compare all messages; whether a mismatch was reported. Until the ``last`` time, all must have sent one."""
        said = {**self._session.heard(TOPIC), **self._session.heard(GROUPED)}
        words = {rank: word for rank, text in said.items() if (word := _read(text)) is not None}
        words[self._state.rank()] = self.word(sequences, still)
        found = False
        for name, group in self._position.groups().items():
            complete = last or all(rank in words and words[rank].line for rank in group.members)
            if (
                complete
                and self._state.rank() in group.members
                and (told := mismatch(words, name, group.members, group.default)) is not None
            ):
                self.tell(told, words)
                found = True
        if not found and still > max(WAIT_TOLD_S, 2 * self._usual):
            self._tell_wait(words)
        return found

    def tell(self, found: Mismatch, words: dict[int, RankWord]) -> None:
        """Once per mismatch: in the notes, and as one line."""
        if (found.group, found.sequence) in self._told or len(self._told) >= 8:
            return
        self._told.add((found.group, found.sequence))
        session = self._session
        subject = f"{Subject.COLLECTIVE} #{found.sequence}"
        fields = {
            "subject": subject,
            "ordinal": found.sequence,
            "what": found.what,
            "values": found.values,
            "certain": True,
        }
        fields |= {"odd": found.odd, "places": found.places}
        lines = [
            f"rank {rank} at {words[rank].line}"
            for _, ranks in found.values
            for rank in ranks[:2]
            if rank in words and words[rank].line
        ]
        where = f" ({'; '.join(lines[:4])})" if lines and not found.places else ""
        skipped = _skipped(words)
        session.note("ContractBroken", fields, f"{subject}: {found}{where}{skipped}")
        self._tell_batches(words)
        session.say(f"the ranks are out of step in {subject}: {found}{where}{skipped}")
        session.flush()

    def _tell_batches(self, words: dict[int, RankWord]) -> None:
        """Ranks with different numbers of batches end their epochs apart. Otherwise compared at the first step."""
        if self._state.steps:
            return
        batches: dict[int, list[int]] = {}
        for rank, word in sorted(words.items()):
            if word.batches is not None:
                batches.setdefault(word.batches, []).append(rank)
        if len(batches) > 1:
            values = tuple(
                (str(number), tuple(ranks)) for number, ranks in sorted(batches.items(), key=lambda item: -len(item[1]))
            )
            fields = {"subject": Subject.BATCHES, "ordinal": 0, "what": "batches", "values": values, "certain": False}
            told = " but ".join(f"{value} on rank {', '.join(map(str, ranks[:8]))}" for value, ranks in values)
            self._session.note("ContractBroken", fields, f"batches of the epoch: {told}")

    def _tell_wait(self, words: dict[int, RankWord]) -> None:
        """Which rank is elsewhere while the others wait."""
        steps = self._session.steps
        waiting = tuple(sorted(r for r, w in words.items() if w.doing in WAITS and w.idle and w.still_s >= STILL_S))
        late = tuple(
            sorted(
                r
                for r, w in words.items()
                if w.doing not in WAITS and w.still_s >= WAIT_TOLD_S and w.phase not in QUIET and w.line
            )
        )
        if not waiting or not late or steps == self._wait_told_at or self._waits_told >= MOST_WAITS_TOLD:
            return
        self._waits_told += 1
        self._wait_told_at = steps
        word = words[late[0]]
        where = f"{'waiting for a batch' if word.doing == 'input' else 'elsewhere'}, at {word.line}"
        behind = [number for rank in waiting for number in words[rank].sequences.values()][:1]
        fields = {
            "waiting": waiting,
            "late": late,
            "seconds": round(max(words[rank].still_s for rank in waiting), 2),
            "collective": behind[0] if behind else None,
            "where": where,
            "phase": BoxPhase(word.phase).name.lower(),
            "steps": word.steps,
        }
        self._session.note(
            "PeersWait", fields, f"ranks {', '.join(map(str, waiting[:8]))} wait for rank {late[0]}, which is {where}"
        )

    # --- what is seen of this rank

    def sequences(self) -> dict[str, int]:
        return self._position.sequences() or {}

    def word(self, sequences: dict[str, int], still: float) -> RankWord:
        return self._position.word(sequences, still, self._usual)

    def tell_trails(self, sequences: dict[str, int]) -> None:
        """Write down what this rank issued last, to be compared when no rank is left to do so."""
        if self._trails_told >= MOST_TRAILS_TOLD or self._state.world < 2:
            return
        self._trails_told += 1
        waits, groups = self._position.waits, self._position.groups()
        for name, record in list(self._position.recorded(sequences).items())[:MOST_GROUPS]:
            fields = {
                "group": name,
                "issued": [tuple(each) for each in record.issued[-NOTED:]],
                "steps": self._session.steps,
                "done": record.done,
                "waits": waits,
            }
            if name in groups:
                fields |= {"members": groups[name].members, "axis": groups[name].axis}
            last = record.issued[-1]
            self._session.note(
                "CollectivesIssued",
                fields,
                f"#{last.sequence} of group {name}: {last.words}{f' at {last.line}' if last.line else ''}",
            )

    def leave(self) -> None:
        """The process ends, by an exception or with its groups still there: its last collectives may show why."""
        if self._state.world > 1 and (not self._state.closed or getattr(sys, "last_type", None) is not None):
            self._trails_told = min(self._trails_told, MOST_TRAILS_TOLD - 1)
            with self._session.part("flight recorder"):
                self.tell_trails(self._position.sequences() or dict.fromkeys(recorder.read(self._state), 0))


def _skipped(words: dict[int, RankWord]) -> str:
    """Whether a rank has used up its batches and took no step for some of them."""
    for rank, word in sorted(words.items()):
        if word.phase not in STEPPING and 0 < word.steps < word.turns:
            return f"; rank {rank} has used up its {word.turns} batches and took {word.steps} steps"
    return ""


def _read(text: str) -> RankWord | None:
    try:
        return RankWord.from_dict(json.loads(text))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def after_failure(state: TorchState, issued: IssuedCollective) -> None:
    """A collective failed on this rank: look briefly whether its peers issued another one. Once."""
    watch = state.watch
    if watch is None or state.world < 2 or state.closed or state.failure_told:
        return
    state.failure_told = True
    end, pausing = time.monotonic() + FAILURE_WAIT_S, threading.Event()
    while True:
        sequences = watch.sequences()
        if state.store is not None and state.store.alive():
            watch.publish(sequences, LONG_S)
            if watch.compare(sequences, LONG_S, last=time.monotonic() >= end):
                return
        found = in_boxes(state.session, issued.sequence, issued.shaped.packed)
        if found is not None:
            watch.tell(found, {state.rank(): watch.word(sequences, 0.0)})
            return
        if time.monotonic() >= end:
            return
        pausing.wait(0.1)


# --- What peers on this host were in, from their black boxes: if sizes differ, gloo ends a process silently.

LOOKED_AT = 200
MOST_BOXES = 256


def in_boxes(session: FormsWorld, sequence: int, packed: int) -> Mismatch | None:
    """The mismatch with a peer whose box has another collective under the same number; None: there is none."""
    if session.folder is None or session.who.rank is None or not packed:
        return None
    values = {unpacked(packed): [session.who.rank]}
    newest: dict[int, tuple[float, int]] = {}
    for path in sorted(session.folder.glob(f"rank*-{session.who.attempt}.box"))[:MOST_BOXES]:
        name = path.name.split("-")[0].removeprefix("rank")
        if not name.isdecimal() or int(name) == session.who.rank:
            continue
        try:
            with open_box(path) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                who = blackbox.identity(data)
                found = _at(data, sequence)
        except (OSError, ValueError):
            continue
        began = float(who.get("wall") or 0.0)
        if found and began > newest.get(int(name), (0.0, 0))[0]:
            newest[int(name)] = (began, found)
    for rank, (_, found) in newest.items():
        values.setdefault(unpacked(found), []).append(rank)
    if len(values) < 2:
        return None
    ordered = sorted(values.items(), key=lambda item: (-len(item[1]), item[1]))
    operations = {words.split(" ", 1)[0] for words in values}
    types = {words.partition(",")[0] for words in values}
    what = "operation" if len(operations) > 1 else "dtype" if len(types) > 1 else "size"
    return Mismatch(sequence, what, tuple((words, tuple(sorted(ranks))) for words, ranks in ordered))


def _at(data: mmap.mmap, sequence: int) -> int:
    """What the box says about the collective with that number; 0: nothing."""
    for seen, record in enumerate(blackbox.newest_first(data)):
        if seen >= LOOKED_AT:
            break
        if record.kind == RecordKind.COLLECTIVE and record.value == sequence and record.extra >> 8:
            return record.extra
    return 0
