# SPDX-License-Identifier: Apache-2.0
"""Replicas that must hold the same numbers: fingerprints of their bits, compared now and then by the guards' threads.

An adapter adds a *look*: sums over the bits of each tensor, taken at the end of a step that all ranks count alike.
The first rank of a group compares. Only what was equal at the first looks is compared: ranks may differ by design, and
different processors round differently. A finding goes to all ranks: what they save from then on is suspect.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from keepstep.base.wording import count
from keepstep.base.wording import ranks as say_ranks
from keepstep.errors import OutOfStep
from keepstep.guard.exchange import key_of
from keepstep.signals.fingerprints import Apart, apart, digest
from keepstep.signals.two_replicas import StepsAgain, which

if TYPE_CHECKING:
    from keepstep.guard.protocols import ComparesNumbers

PART, OF_MODEL = "fingerprints of replicas", "fingerprints of a model"
TOPIC, FOUND = "numbers", "numbers-found"
VARIABLE = "KEEPSTEP_FINGERPRINTS"
"""``off``, or every how many steps; without it, the cost decides."""
LOOK_S = 1.0
FIRST_LOOK = 8
MOST_SHARE, LEAST_S = 0.001, 5.0
"""Looks may take this share of the time, and no two are closer to each other than this."""
ONCE_S = 0.02
BASELINE = 2
"""So often the replicas must have agreed before a difference counts."""
KEPT = 8
"""Looks that are remembered, and of which each tensor's fingerprint can be asked for."""
MOST_TENSORS, MOST_FINDINGS = 24_000, 1_000
FEWER = 0.9
"""The ranks exchange less than this share of what they used to: they no longer train one model, by design."""
SEVERAL, MOST = 3, 0.5
"""Where so many tensors differ, or this share of them, it is not a flipped bit: a rank takes other steps."""
LOST = 0.5
"""Where a larger share of the tensors became NaN or infinite, it is the training, not gradients or a metric."""
LONGEST_S = 120.0
"""How long the first rank waits for what the others saw in a look."""
AGAIN, AGAIN_AFTER_S, MOST_NAMES = "numbers-again", 2.5, 8
"""Two replicas repeat a step some seconds after a difference was found, when both have heard of it."""
NO_REPEAT = "a step of this kind of training cannot be repeated from outside"
Answer = Callable[[Callable[[], StepsAgain | None]], None]
"""Takes what reads the result once the device has it."""


@dataclass(eq=False, kw_only=True)
class Look:
    """One rank's replica at one step. ``read`` gives the sums of each tensor once the device has them: two over its
    bits and, where the adapter counts that, how many of its values are not finite."""

    subject: str
    ranks: tuple[int, ...]
    """Those that hold replicas, in order; the first one compares."""
    number: int
    """The step, by a count that all these ranks share..."""
    step: int
    """... and by the session's."""
    exchanged: int
    """Collectives of the group so far: ranks that have issued different numbers of them are not at the same place."""
    names: tuple[str, ...]
    read: Callable[[], Sequence[Sequence[int]] | None]
    promised: bool = False
    """The framework has made them equal, and keeps them so."""
    again: Callable[[Sequence[str], int, Answer], None] | None = None
    """Make some steps twice, from a number on, and look at these tensors."""
    at: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _Known:
    """What is known of one subject: what agreed before, and what does not count."""

    agreed: Counter[str] = field(default_factory=Counter)
    """For each tensor, how often it was equal."""
    agreed_at: int | None = None
    exchanged: tuple[int, int, float] | None = None
    """Number and exchanges at the last agreed look, and exchanges for each step before it."""
    left_out: set[str] = field(default_factory=set)
    """Tensors that no majority holds alike."""
    odd: dict[str, set[int]] = field(default_factory=dict)
    """Replicas that are known to hold something else than the others, by tensor..."""
    since: dict[str, Counter[int]] = field(default_factory=dict)
    """... and how often the others have agreed since."""
    own: dict[int, tuple[Look, list[str], str, int, set[str]]] = field(default_factory=dict)
    """Looks of this rank: each tensor's fingerprint, that of all together, where others can ask for the former, and
    which tensors are not finite."""
    finite_at: int | None = None
    """The last look at which most tensors were finite."""
    published: int = 0


@dataclass(eq=False)
class _OfTwo:
    """Two replicas that differ, while both ranks repeat some steps."""

    look: Look
    names: tuple[str, ...]
    until: float
    answers: dict[int, StepsAgain] = field(default_factory=dict)


class Interval:
    """After how many steps to look again. A power of two: looks of ranks with different ones fall on common steps."""

    def __init__(self, asked: int | None) -> None:
        self._asked = asked
        self.next = asked or FIRST_LOOK
        self._costs: deque[float] = deque(maxlen=5)
        self._at: tuple[int, float] = (0, time.monotonic())
        self._is_small = False
        """The first looks cost so little that they need not be spread."""

    def affords(self, number: int, estimate_s: float) -> bool:
        """Whether a look is due; before the first one only its size tells what it will cost."""
        if number < self.next:
            return False
        self._is_small = estimate_s <= ONCE_S
        if not self._costs and self._asked is None and not self._is_small:
            every = self._every(number, estimate_s)
            if number % every:
                self.next = (number // every + 1) * every
                return False
        return True

    def skip(self, number: int) -> None:
        """Not at this step; at one that the other ranks look at, too."""
        self.next = number + (self._asked or number & -number)

    def looked(self, number: int, cost_s: float) -> None:
        self._costs.append(cost_s)
        every = self._asked or self._every(number, sorted(self._costs)[len(self._costs) // 2])
        if self._asked is None and self._is_small and len(self._costs) < BASELINE:
            every = FIRST_LOOK
        self._at = (number, time.monotonic())
        self.next = (number // every + 1) * every

    def _every(self, number: int, cost_s: float) -> int:
        before, at = self._at
        step_s = max(1e-6, (time.monotonic() - at) / max(1, number - before))
        return 1 << max(0, int(max(cost_s / MOST_SHARE, LEAST_S) / step_s)).bit_length()


class Fingerprints:
    """Of this rank; on the first rank of a group also those of the others."""

    def __init__(self, session: ComparesNumbers, env: Mapping[str, str] = os.environ) -> None:
        self._session = session
        asked = env.get(VARIABLE, "").strip().lower()
        self.off = asked in ("off", "0", "no", "false")
        self.asked = int(asked) if asked.isdecimal() and int(asked) else None
        self._pending: deque[Look] = deque()
        self._known: dict[str, _Known] = {}
        self._started = self._over = False
        self._findings = 0
        self._found: str | None = None
        self._heard: dict[int, str] = {}
        self._leaders: set[int] = set()
        self._asked: dict[str, _OfTwo] = {}
        """By subject: what this rank, as the first of the two, wants to know."""
        self._asks: list[tuple[str, Sequence[str], int]] = []
        """The same as the other rank hears it, with each finding again: the next one may come before it has heard."""
        self._repeated: set[str] = set()
        self._reading: dict[str, Callable[[], StepsAgain | None] | None] = {}
        """By subject: this rank's steps that it repeats."""
        self._patience_until = 0.0
        """Strict mode lets both ranks end that first."""

    # --- for the adapters

    def add(self, look: Look) -> None:
        """One more look at this rank's replica. Raises OutOfStep where a difference was found and strict was asked."""
        self._begin()
        self._pending.append(look)
        waiting = {each.number: each for each in tuple(self._pending) if each.subject == look.subject}
        if len(waiting) > KEPT:
            with contextlib.suppress(ValueError):  # the thread has just taken it
                self._pending.remove(waiting[_least(waiting)])
        self.stop_if_strict()

    def add_inside(
        self,
        subject: str,
        step: int,
        names: Sequence[str],
        replicas: Mapping[str, Sequence[Any]],
        *,
        promised: bool = False,
    ) -> None:
        """Replicas that one process holds, by their devices; of each tensor, its sums. ``promised``: one agreement is
        enough, because the framework has made them equal and keeps them so."""
        self._begin()
        subject = f"{subject}, within one process"
        known = self._known.setdefault(subject, _Known())
        devices = list(replicas)
        digests = {place: [digest(each) for each in replicas[device]] for place, device in enumerate(devices)}
        found = self._differing(known, names, digests, step, 1 if promised else BASELINE)
        for each in found:
            self._tell(known, each, names, step, [devices[place] for place in each.odd], len(devices))
        if not found:
            lost = _not_finite(names, replicas[devices[0]])
            if (told := self._look_at_lost(known, names, lost, step, len(devices))) is not None:
                self._suspect(*told)

    def listen(self, leader: int) -> None:
        """Hear what any rank tells the group that this one leads."""
        self._leaders.add(leader)
        self._begin()

    def tell_all(self, leader: int, agreed: int, words: str) -> None:
        """This rank found wrong numbers: all that listen hear of it, and what they save is suspect."""
        self._suspect(agreed, words)
        self._heard[leader] = text = json.dumps({"agreed": agreed, "words": words, "again": self._asks})
        self._put(FOUND, text, leader)

    def stop_if_strict(self) -> None:
        if self._found is not None and self._session.strict and time.monotonic() > self._patience_until:
            raise OutOfStep(self._found, hint="KEEPSTEP=on only reports it; `keepstep why` says more")

    def _begin(self) -> None:
        if not self._started:
            self._started = True
            self._session.pulse.every(LOOK_S, PART, self.turn)

    # --- in the guard's thread

    def turn(self) -> None:
        """Publish the looks that the device has finished; compare, or hear what was found."""
        if self._over:
            return
        try:
            while self._pending and (sums := self._pending[0].read()) is not None:
                self._publish(self._pending.popleft(), sums)
            for subject, known in list(self._known.items()):
                self._compare(subject, known)
            self._hear()
            self._read_repeats()
        except OutOfStep:
            raise
        except Exception as error:  # the service ends with the first rank that leaves
            self._over = True
            if not isinstance(error, ConnectionError):
                self._session.uncovered(PART, f"{type(error).__name__}: {str(error)[:200]}")

    def _publish(self, look: Look, sums: Sequence[Sequence[int]]) -> None:
        known = self._known.setdefault(look.subject, _Known())
        digests = [digest(each) for each in sums]
        whole = hashlib.blake2b(repr(sums).encode(), digest_size=8).hexdigest()
        slot = known.published % KEPT
        known.published += 1
        known.own[look.number] = (look, digests, whole, slot, _not_finite(look.names, sums))
        for old in sorted(known.own)[:-KEPT]:
            del known.own[old]
        self._leaders.add(look.ranks[0])
        if look.ranks[0] == self._session.who.rank:
            return
        self._put(_detail(look.subject, slot), f"{look.number} {''.join(digests)}")
        said = {
            str(each.number): [each.exchanged, layout_of(each.names), its, place]
            for each, _, its, place, _ in known.own.values()
        }
        self._put(f"{TOPIC}/{look.subject}", json.dumps(said))

    def _compare(self, subject: str, known: _Known) -> None:
        session, heard = self._session, dict[int, dict[str, list[Any]]]()
        for number in sorted(known.own):
            look, digests, whole, _, lost = known.own[number]
            if look.ranks[0] != session.who.rank:
                return
            heard = heard or {rank: _read(session.heard_from(f"{TOPIC}/{subject}", rank)) for rank in look.ranks[1:]}
            if any(not said or max(map(int, said)) < number for said in heard.values()):
                if time.monotonic() - look.at > LONGEST_S:
                    known.own.clear()  # the model is no longer trained
                return  # a rank is not there yet
            del known.own[number]
            theirs = [said.get(str(number)) for said in heard.values()]
            if any(each is None or list(each[:2]) != [look.exchanged, layout_of(look.names)] for each in theirs):
                continue  # a rank looks less often, or is at another place
            if all(each is not None and each[2] == whole for each in theirs):
                known.agreed.update(look.names)
                known.agreed_at = look.step
                self._note_exchanges(known, look)
                if (told := self._look_at_lost(known, look.names, lost, look.step, len(look.ranks))) is not None:
                    self.tell_all(look.ranks[0], *told)
                continue
            all_digests = {look.ranks[0]: digests}
            for rank, said in heard.items():
                text = session.heard_from(_detail(subject, int(said[str(number)][3])), rank) or ""
                if text.startswith(f"{number} "):
                    all_digests[rank] = _split(text.partition(" ")[2])
            if len(all_digests) == len(look.ranks):
                self._judge(known, look, all_digests)

    def _judge(self, known: _Known, look: Look, digests: Mapping[int, Sequence[str]]) -> None:
        few = 2 * sum(len(each.tensors) for each in apart(digests)) < len(look.names)  # all, where processors differ
        found = self._differing(known, look.names, digests, look.step, 1 if look.promised and few else BASELINE)
        if not found:
            self._note_exchanges(known, look)
            return
        most = sum(len(each.tensors) for each in found) >= max(SEVERAL, MOST * len(look.names))
        if most and self._trains_apart(known, look):
            self._session.uncovered(OF_MODEL, "the ranks exchange less than before, so each trains a model of its own")
            return
        for each in found:
            self._tell(known, each, look.names, look.step, [], len(look.ranks))
        if len(look.ranks) == 2 and look.subject not in self._asked and look.ranks[0] in self._heard:
            self._ask_both(look, [look.names[place] for each in found for place in each.tensors])

    # --- which of two

    def _ask_both(self, look: Look, names: Sequence[str]) -> None:
        """Both ranks make some steps twice, from one that none of them has begun."""
        kept, step_s = tuple(names[:MOST_NAMES]), self._session.usual_step_s or 0.1
        start = look.number + max(4, int((time.monotonic() - look.at + AGAIN_AFTER_S) / step_s))
        patience_s = LONGEST_S + 20 * step_s
        self._asked[look.subject] = _OfTwo(look, kept, time.monotonic() + patience_s)
        self._repeat(look, kept, start)
        self._asks.append((look.subject, kept, start))
        said = json.loads(self._heard[look.ranks[0]]) | {"again": self._asks}
        self._heard[look.ranks[0]] = text = json.dumps(said)
        self._put(FOUND, text, look.ranks[0])

    def _repeat(self, look: Look, names: Sequence[str], start: int) -> None:
        subject = look.subject
        self._repeated.add(subject)
        if look.again is None:
            self._reading[subject] = lambda: StepsAgain(why=NO_REPEAT)
            return
        self._reading[subject] = None
        self._patience_until = time.monotonic() + LONGEST_S
        look.again(names, start, functools.partial(self._reading.__setitem__, subject))

    def _read_repeats(self) -> None:
        own, session = self._session.who.rank or 0, self._session
        for subject, read in list(self._reading.items()):
            if read is None or (answer := read()) is None:
                continue
            del self._reading[subject]
            if subject in self._asked:
                self._asked[subject].answers[own] = answer
            else:
                self._patience_until = 0.0
                self._put(f"{AGAIN}/{subject}", json.dumps(asdict(answer)))
        for subject, of_two in self._asked.items():
            if of_two.until == inf:
                continue  # told
            other = of_two.look.ranks[1]
            if other not in of_two.answers and (text := session.heard_from(f"{AGAIN}/{subject}", other)):
                of_two.answers[other] = StepsAgain(**json.loads(text))
            late = [rank for rank in of_two.look.ranks if rank not in of_two.answers]
            if not late or time.monotonic() > of_two.until:
                of_two.answers |= {rank: StepsAgain(why="it gave no answer in time") for rank in late}
                of_two.until = inf
                self._tell_which(of_two)

    def _tell_which(self, of_two: _OfTwo) -> None:
        found, look = which(of_two.answers), of_two.look
        if found.rank is None:
            words = f"which of {say_ranks(look.ranks)} is wrong is not established: {found.words}"
        else:
            likely = "" if found.sure else "probably "
            words = f"of {say_ranks(look.ranks)}, rank {found.rank} is {likely}wrong: {found.words}"
        fields = {"ranks": () if found.rank is None else (found.rank,), "of": look.ranks, "tensor": of_two.names[0]}
        self._session.note("OddOfTwo", fields | {"step": look.step, "sure": found.sure, "why": found.words}, words)
        self._session.say(words)
        self._session.flush()
        self._patience_until = 0.0

    def _differing(
        self,
        known: _Known,
        names: Sequence[str],
        digests: Mapping[int, Sequence[str]],
        step: int,
        baseline: int = BASELINE,
    ) -> tuple[Apart, ...]:
        """What counts of the differences. A replica that is odd in a tensor is not looked at again in this one."""
        gone = {place: known.odd[name] for place, name in enumerate(names) if name in known.odd}
        found = apart(digests, {place for place, name in enumerate(names) if name in known.left_out}, gone)
        new, counts = set[str](), list[Apart]()
        for each in found:
            kept = [place for place in each.tensors if self._agreed(known, names[place], each.odd) >= baseline]
            new |= {names[place] for place in each.tensors if place not in kept}
            if kept:
                counts.append(replace(each, tensors=tuple(kept)))
        for each in found:
            for name in (names[place] for place in each.tensors):
                if each.majority:
                    known.odd.setdefault(name, set()).update(each.odd)
                    known.since.setdefault(name, Counter())
                else:
                    known.left_out.add(name)
        known.agreed.update(name for name in names if name not in known.left_out and name not in known.odd)
        for name, since in known.since.items():
            since.update(digests.keys() - known.odd[name])
        if new:
            many = f"{PART}: {len(new)} of {count(len(names), 'tensor')}"
            self._session.uncovered(many, "they have differed between the replicas from the start")
        if not counts:
            known.agreed_at = step
        return tuple(counts)

    @staticmethod
    def _agreed(known: _Known, name: str, replicas: Sequence[int]) -> int:
        """How often these replicas have held the same as the others."""
        since = known.since.get(name, Counter())
        return max(known.agreed[name], min(since[each] for each in replicas))

    def _note_exchanges(self, known: _Known, look: Look) -> None:
        before = known.exchanged
        rate = before[2] if before else 0.0
        if before and look.number > before[0]:
            rate = (look.exchanged - before[1]) / (look.number - before[0])
        known.exchanged = (look.number, look.exchanged, rate)

    def _trains_apart(self, known: _Known, look: Look) -> bool:
        """Whether the ranks have exchanged clearly less since they agreed than they did before."""
        if known.exchanged is None or look.number <= known.exchanged[0]:
            return False
        number, exchanged, rate = known.exchanged
        return (look.exchanged - exchanged) / (look.number - number) < FEWER * rate

    def _look_at_lost(
        self, known: _Known, names: Sequence[str], lost: Set[str], step: int, replicas: int
    ) -> tuple[int, str] | None:
        """All replicas alike are NaN or infinite, and were not at an earlier look: an exchange has spread it since.
        That look's step, and the words."""
        if len(lost) <= LOST * len(names):
            known.finite_at = step
            return None
        if known.finite_at is None:
            return None  # told, or so from the start
        finite_at, known.finite_at = known.finite_at, None
        tensor = next(name for name in names if name in lost)
        more = f" and {len(lost) - 1} of {count(len(names) - 1, 'other tensor')}" if len(lost) > 1 else ""
        words = (
            f"at step {step} {tensor}{more} {'are' if more else 'is'} NaN or infinite in all {replicas} replicas, "
            f"and at step {finite_at} most values were finite; an exchange spread it, so this does not show on which "
            "replica it began"
        )
        fields = {"tensor": tensor, "tensors": len(lost), "of": len(names), "replicas": replicas}
        self._session.note("ReplicasNotFinite", fields | {"step": step, "finite_at": finite_at}, words)
        self._session.say(words)
        self._session.flush()
        return finite_at, words

    def _tell(
        self, known: _Known, found: Apart, names: Sequence[str], step: int, devices: Sequence[str], replicas: int
    ) -> None:
        self._findings += 1
        if self._findings > MOST_FINDINGS:
            return
        ranks = () if devices else found.odd
        who = " and ".join(devices) if devices else say_ranks(ranks)
        tensor, more = names[found.tensors[0]], len(found.tensors) - 1
        what = tensor + (f" and {count(more, 'other tensor')}" if more else "")
        since = f"; they agreed at step {known.agreed_at}" if known.agreed_at is not None else ""
        words = (
            f"at step {step} {who} {'holds' if len(found.odd) == 1 else 'hold'} other numbers than the other "
            f"replicas in {what}{since}"
            if found.majority
            else f"at step {step} the replicas of {who} differ in {what}: one of them is wrong{since}"
        )
        fields = {"ranks": ranks, "devices": tuple(devices), "replicas": replicas, "majority": found.majority}
        fields |= {"tensor": tensor, "tensors": len(found.tensors), "of": len(names)}
        self._session.note("ReplicaOdd", fields | {"step": step, "agreed": known.agreed_at}, words)
        self._session.say(words)
        self._session.flush()
        if devices:
            self._suspect(known.agreed_at or 0, words)
        else:
            self.tell_all(self._session.who.rank or 0, known.agreed_at or 0, words)

    def _put(self, topic: str, text: str, rank: int | None = None) -> None:
        exchange, who = self._session.exchange, self._session.who
        if exchange is not None and getattr(exchange, "overwrites", True):
            exchange.put(key_of(who, topic, who.rank if rank is None else rank), text)

    def _hear(self) -> None:
        for leader in self._leaders:
            text = self._session.heard_from(FOUND, leader)
            if text and text != self._heard.get(leader):
                self._heard[leader] = text
                said = json.loads(text)
                self._suspect(int(said["agreed"]), str(said["words"]))
                for subject, names, start in said.get("again", ()):
                    own = self._known[subject].own.values() if subject in self._known else ()
                    if subject not in self._repeated and (look := next((each[0] for each in own), None)) is not None:
                        self._repeat(look, names, start)

    def _suspect(self, agreed: int, words: str) -> None:
        self._found = words
        self._session.ledger.suspect(agreed, words)


def _not_finite(names: Sequence[str], sums: Sequence[Sequence[int]]) -> set[str]:
    return {name for name, each in zip(names, sums, strict=True) if len(each) > 2 and each[2]}


def layout_of(names: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(names).encode(), digest_size=4).hexdigest()


def _least(numbers: Iterable[int]) -> int:
    """The one that other ranks least likely keep, too: they look at most steps, or only at multiples of a power of two.
    The one before the first step is kept."""
    return min(numbers, key=lambda number: (number & -number or inf, number))


def _detail(subject: str, slot: int) -> str:
    return f"{TOPIC}-of/{subject}/{slot}"


def _split(text: str) -> list[str]:
    from keepstep.signals.fingerprints import SHORT

    return [text[at : at + SHORT] for at in range(0, len(text), SHORT)]


def _read(text: str | None) -> dict[str, list[Any]]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}
