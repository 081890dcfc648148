# SPDX-License-Identifier: Apache-2.0
"""Who has stopped: a pure judgement of what ranks showed from outside over time. Reads no clock and no process.

    watch = Watch()
    suspicion = watch.see(signs, at)          # now and then
    if suspicion is not None:                 # nothing has moved for too long: look at the stacks
        stop = watch.looked(suspicion, still=..., at=...)

Nothing is configured. While ranks step, silence is too long after a few of their usual steps, and a little later if
they compiled, saved or evaluated since the last one. Before the first steps, and while one compiles, evaluates or
saves, only idleness counts: no processor time, no bytes moved, nothing printed. A pause that looked like a stop and
then ended by itself is remembered, and the next one of its kind may take as long.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from keepstep.signals.blackbox import BoxPhase

LEAST_S = 1.0
"""Shorter silences are never looked at."""
LEAST_LIVELY_S, OFTEN = 2.0, 3
"""The same in a run whose ranks were found at work this often: they pause by nature."""
TELLS_S = 3.0
"""An unproven silence is not worth reporting before this."""
BETWEEN_S, TELLS_BETWEEN_S = 3.0, 15.0
"""Silence between two steps with something else in between (an epoch begins, a state was saved).

Until we look, and until we report what nothing proves.
"""
USUAL_STEPS = 3.0
FIRST_STEPS = 2
"""This many steps are warm-up: they trace, compile and fill pipelines."""
IDLE_S = 5.0
"""Idleness in a phase that may take long, until we look."""
GIVEN_IDLE_S = 300.0
"""The same for the user's own command while no rank has shown itself: it may wait for a queue or a download."""
OVER_S = 30.0
"""The same once every script is over: Python joins threads and frees what is left, which may take a while."""
POLLS_S = 60.0
"""Silence without steps of ranks that use the processor, move nothing and print nothing, until we look.

Threads that carry messages poll all the time. Only a wait that the stacks name counts then.
"""
BUSY_S = 600.0
"""Silence of ranks that work, until we look. Healthy ones compile, evaluate, or print nothing for minutes."""
ALONE_S, ALONE_STEPS = 30.0, 20.0
"""One rank is silent while others make progress (they need not wait for it)."""
SURE_S = 20.0
"""Without a guard, two looks without movement this far apart are proof."""
AGAIN = 2.0
"""After a look that saw movement, the next one comes when the silence is this many times as long."""
FORGIVEN = 1.5
"""A pause may take this many times as long as the longest of its kind that ended by itself."""
WORKS_SHARE = 0.05
"""Of a core, over a while: less is a heartbeat, not work. (The kernel counts in hundredths of a second.)"""
WORKS_WINDOW_S = 1.0
WORKS_BYTES = 64 << 10
"""A second."""

_STEPPING = (BoxPhase.INPUT, BoxPhase.COMPUTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What one rank showed at one moment. Times are seconds of this host's monotonic clock."""

    pid: int
    rank: int | None = None
    at: float
    phase: BoxPhase | None = None
    """None: it has no black box."""
    steps: int = 0
    progress: float | None = None
    """When its black box last moved, not counting heartbeats."""
    usual_s: float | None = None
    cpu_s: float = 0.0
    """Of the process and its children, so far."""
    transferred: int = 0
    """Bytes read and written, so far."""
    printed: int = 0
    """Bytes printed, so far."""
    frozen: bool = False
    """The kernel says that it is stopped (SIGSTOP, a debugger)."""
    collective: int | None = None
    between: bool = False
    """Since its last step it has compiled, saved or evaluated: what it does now is not a usual step."""
    runs: bool = False
    """The kernel shows it, or a process below it, running or waiting for a disk."""

    @property
    def is_stepping(self) -> bool:
        """Whether it is in a step, and not in one of the first: those take as long as they take."""
        return self.phase in _STEPPING and self.steps >= FIRST_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """Nothing has moved for too long. ``signs`` are the last ones of all ranks."""

    at: float
    quiet_s: float
    limit_s: float
    kind: str
    """``step``, ``between``, ``alone``, ``start``, ``compile``, ``checkpoint``, ``evaluation``, ``retry``, ``end``,
    ``polls``, ``busy`` or ``unguarded``."""
    usual_s: float | None
    signs: tuple[Sign, ...]
    held_up: tuple[Sign, ...]
    """By the boxes, those that the others may wait for; all of them if nothing shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The stacks were looked at too. ``proven``: they do not move either, in a phase that does not wait by nature."""

    suspicion: Suspicion
    proven: bool
    at: float

    @property
    def quiet_s(self) -> float:
        return self.suspicion.quiet_s + self.at - self.suspicion.at

    @property
    def began(self) -> float:
        """When the silence began."""
        return self.suspicion.at - self.suspicion.quiet_s

    @property
    def words(self) -> str:
        usual = self.suspicion.usual_s
        times = f", {self.quiet_s / usual:.0f} times the usual step" if usual else ""
        return f"no progress for {self.quiet_s:.1f} s{times}"


@dataclass
class _Memory:
    """Of one rank: when it last did anything that counts."""

    sign: Sign
    base: Sign
    """The sign from which work is counted."""
    worked: float
    """When it last used the processor, moved bytes or printed."""
    moved: float
    """The same without the processor."""
    printed: float
    progress: float


@dataclass
class Watch:
    """What has been seen so far. Fed with signs and looks; the same ones always give the same answers."""

    least_s: float | None = None
    """The user's own limit (``--hang-timeout``), instead of the learned one."""
    crowding: float = 1.0
    """How many processes compete for each core of this host, at least 1: on a crowded host, silence says less."""
    _ranks: dict[int, _Memory] = field(default_factory=dict)
    forgiven: dict[str, float] = field(default_factory=dict)
    """The longest pause of each kind that ended by itself; the next attempt knows it, too."""
    _next: dict[str, float] = field(default_factory=dict)
    """How long the present silence must have lasted for the next look of that kind."""
    _stop: Stop | None = None
    _stuck: str = ""
    _lively: int = 0
    """How many looks found a rank at work."""
    _leaving: bool = False
    """A rank has exited by itself: the others may be exiting, too."""

    def note(self, signs: Sequence[Sign]) -> None:
        """Take note of what ranks do while their stacks are being looked at."""
        for sign in signs:
            self._remember(sign)

    def see(self, signs: Sequence[Sign], at: float) -> Suspicion | None:
        """Take note of all living ranks, and say whether it is time to look at their stacks."""
        self.note(signs)
        for pid in set(self._ranks) - {sign.pid for sign in signs}:
            self._leaving = self._leaving or self._ranks[pid].sign.phase is BoxPhase.END
            del self._ranks[pid]
        if not signs:
            return None
        suspicion = self._judge(tuple(signs), at)
        if suspicion is None:
            self._moved(signs, at)
        return suspicion if suspicion is not None and self._is_due(suspicion) else None

    def looked(
        self, suspicion: Suspicion, *, still: bool | None, at: float, signs: Sequence[Sign] = (), sure: bool = True
    ) -> Stop | None:
        """The stacks were taken. ``still``: no rank moved between the looks and none was at work; None: unknown.

        ``sure``: what they wait for does not come by itself. A file, a sleep or a child may: that is never proof.
        ``signs``: what the ranks show now. One that has moved since the suspicion, or ended, refutes it.
        """
        stop = self.judge(suspicion, still=still, at=at, signs=signs, sure=sure)
        quiet = suspicion.quiet_s + at - suspicion.at
        self._next[suspicion.kind] = max(quiet * AGAIN, quiet + 2.0)
        if stop is not None:
            self._stop, self._stuck = stop, suspicion.kind
        elif still is False and not (signs and self.has_moved(suspicion, signs)):
            self._lively += suspicion.kind == "step"
        return stop

    def judge(
        self, suspicion: Suspicion, *, still: bool | None, at: float, signs: Sequence[Sign] = (), sure: bool = True
    ) -> Stop | None:
        """What :meth:`looked` would say, without taking note of it."""
        if (signs and self.has_moved(suspicion, signs)) or still is False:
            return None
        quiet = suspicion.quiet_s + at - suspicion.at
        tells = self.crowding * (TELLS_BETWEEN_S if suspicion.kind == "between" or self._leaving else TELLS_S)
        if not (sure and still is True) and quiet < tells:
            return None
        again = self._stop is not None and self._stuck == suspicion.kind and quiet >= SURE_S
        proven = (
            still is True
            and sure
            and (suspicion.kind in ("step", "between", "alone") or (suspicion.kind == "unguarded" and again))
        )
        return Stop(suspicion=suspicion, proven=proven, at=at)

    def has_moved(self, suspicion: Suspicion, signs: Sequence[Sign]) -> bool:
        """Whether a rank has made progress since the suspicion, or ended."""
        then = {sign.pid: sign for sign in suspicion.signs}
        if {sign.pid for sign in signs} != set(then):
            return True
        watched = [
            sign for sign in signs if suspicion.kind != "alone" or sign.pid in {each.pid for each in suspicion.held_up}
        ]
        if any((sign.progress or 0.0) > (then[sign.pid].progress or 0.0) for sign in watched):
            return True
        return suspicion.kind in ("unguarded", "busy", "polls") and any(
            sign.printed != then[sign.pid].printed for sign in watched
        )

    def idle_s(self, pids: Collection[int], at: float) -> float:
        """For how long none of these has used the processor, a disk, the network or a GPU, or printed."""
        return at - max((each.worked for pid, each in self._ranks.items() if pid in pids), default=at)

    def works(self, pid: int, at: float) -> None:
        """Something else showed that it is at work."""
        if pid in self._ranks:
            self._ranks[pid].worked = max(at, self._ranks[pid].worked)
            self._ranks[pid].moved = max(at, self._ranks[pid].moved)

    @property
    def stopped(self) -> Stop | None:
        """The stop that was found and has not ended since."""
        return self._stop

    def _remember(self, sign: Sign) -> None:
        before = self._ranks.get(sign.pid)
        if before is None:
            progress = sign.progress if sign.progress is not None else sign.at
            self._ranks[sign.pid] = _Memory(sign, sign, sign.at, sign.at, sign.at, progress)
            return
        if sign.printed != before.sign.printed:
            before.printed = before.worked = before.moved = sign.at
        if sign.runs and before.sign.runs:  # once may be chance: the guard's own thread wakes up, too
            before.worked = sign.at
        passed = sign.at - before.base.at
        if passed >= WORKS_WINDOW_S:
            share, moved = (
                (sign.cpu_s - before.base.cpu_s) / passed,
                (sign.transferred - before.base.transferred) / passed,
            )
            if share > WORKS_SHARE or moved > WORKS_BYTES:
                before.worked = sign.at
            if moved > WORKS_BYTES:
                before.moved = sign.at
            before.base = sign
        if sign.progress is not None:
            before.progress = max(before.progress, sign.progress)
        before.sign = sign

    def _judge(self, signs: tuple[Sign, ...], at: float) -> Suspicion | None:
        """The longest silence of all, if it is longer than it should be."""
        guarded = [sign for sign in signs if sign.phase is not None]
        if len(guarded) < len(signs):
            return self._without_guard(signs, at) if not guarded else self._half_guarded(signs, at)
        progress = max(self._ranks[sign.pid].progress for sign in signs)
        usual = max((sign.usual_s for sign in signs if sign.usual_s is not None), default=None)
        pausing = [sign for sign in signs if not sign.is_stepping]
        quiet = at - progress
        if not pausing and usual is not None:
            least, kind = LEAST_S if self._lively < OFTEN else LEAST_LIVELY_S, "step"
            if any(sign.between for sign in signs):
                least, kind = BETWEEN_S, "between"
            limit = self._limit(kind, max(least, USUAL_STEPS * usual))
            if quiet >= limit:
                return _suspicion(kind, at, quiet, limit, usual, signs, signs)
            return self._one_alone(signs, at, usual)
        kind = _name(pausing or signs)
        idle = at - max(progress, *(self._ranks[sign.pid].worked for sign in pausing or signs))
        over = all(sign.phase is BoxPhase.END for sign in signs)
        limit = self._limit(kind, OVER_S * self.crowding if over else IDLE_S)
        if idle >= limit:
            return _suspicion(kind, at, idle, limit, usual, signs, pausing or signs)
        polls = self._stop is not None and self._stop.suspicion.kind == "polls"
        busy = self._limit("busy", max(BUSY_S, USUAL_STEPS * (usual or 0.0)))
        if quiet >= busy and not polls:
            return _suspicion("busy", at, quiet, busy, usual, signs, pausing or signs)
        still = at - max(progress, *(self._ranks[sign.pid].moved for sign in signs))
        limit = self._limit("polls", POLLS_S * self.crowding)
        if kind == "start" and still >= limit:
            return _suspicion("polls", at, still, limit, usual, signs, pausing or signs)
        return None

    def _one_alone(self, signs: tuple[Sign, ...], at: float, usual: float) -> Suspicion | None:
        """A rank that fell silent while others went on."""
        limit = self._limit("alone", max(ALONE_S, ALONE_STEPS * usual))
        silent = [sign for sign in signs if at - self._ranks[sign.pid].progress >= limit]
        if not silent:
            return None
        quiet = min(at - self._ranks[sign.pid].progress for sign in silent)
        return _suspicion("alone", at, quiet, limit, usual, signs, silent)

    def _half_guarded(self, signs: tuple[Sign, ...], at: float) -> Suspicion | None:
        """Some have no box yet: they start, or their guard could not attach."""
        bare = [sign for sign in signs if sign.phase is None]
        quiet = at - max(max(each.progress, each.worked) for each in self._ranks.values())
        limit = self._limit("start", IDLE_S)
        return _suspicion("start", at, quiet, limit, None, signs, bare) if quiet >= limit else None

    def _without_guard(self, signs: tuple[Sign, ...], at: float) -> Suspicion | None:
        idle = at - max(each.worked for each in self._ranks.values())
        given = all(sign.rank is None and not sign.frozen for sign in signs)
        limit = self._limit("unguarded", GIVEN_IDLE_S if given else IDLE_S)
        if idle >= limit:
            return _suspicion("unguarded", at, idle, limit, None, signs, signs)
        silent = at - max(each.printed for each in self._ranks.values())
        limit = self._limit("busy", BUSY_S)
        return _suspicion("busy", at, silent, limit, None, signs, signs) if silent >= limit else None

    def _limit(self, kind: str, learned: float) -> float:
        if self.least_s is not None and kind in ("step", "between", "unguarded", "polls"):
            learned = self.least_s
        return max(learned, FORGIVEN * self.forgiven.get(kind, 0.0))

    def _is_due(self, suspicion: Suspicion) -> bool:
        return suspicion.quiet_s >= self._next.get(suspicion.kind, 0.0)

    def _moved(self, signs: Sequence[Sign], at: float) -> None:
        """The run continues: what looked like a stop was a pause, and the next one of its kind may be as long."""
        if self._stop is not None:
            last = max(self._ranks[sign.pid].progress for sign in signs)
            quiet = max(self._stop.quiet_s, last - (self._stop.suspicion.at - self._stop.suspicion.quiet_s))
            self.forgiven[self._stuck] = max(self.forgiven.get(self._stuck, 0.0), quiet)
            self._stop = None
        self._next.clear()


def _suspicion(
    kind: str, at: float, quiet: float, limit: float, usual: float | None, signs: Sequence[Sign], among: Sequence[Sign]
) -> Suspicion:
    held_up = held_up_by(among)
    return Suspicion(at=at, quiet_s=quiet, limit_s=limit, kind=kind, usual_s=usual, signs=tuple(signs), held_up=held_up)


def held_up_by(signs: Sequence[Sign]) -> tuple[Sign, ...]:
    """Those that the others wait for, by their boxes: frozen, behind in steps or collectives, or not in a step."""
    frozen = [sign for sign in signs if sign.frozen]
    if frozen:
        return tuple(frozen)
    for tell in (
        [sign.steps for sign in signs],
        [sign.collective for sign in signs],
        [0 if sign.phase is not BoxPhase.COMPUTE else 1 for sign in signs],
    ):
        known = [value for value in tell if value is not None]
        if len(known) == len(signs) and min(known) < max(known):
            return tuple(sign for sign, value in zip(signs, known, strict=True) if value == min(known))
    return tuple(signs)


def _name(signs: Sequence[Sign]) -> str:
    """The phase that explains the pause best: what a rank says of itself before the mere start."""
    phases = [sign.phase for sign in signs if sign.phase is not None]
    for phase in (BoxPhase.CHECKPOINT, BoxPhase.EVALUATION, BoxPhase.COMPILE, BoxPhase.RETRY, BoxPhase.END):
        if phase in phases:
            return phase.name.lower()
    return "start"
