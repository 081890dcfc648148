# SPDX-License-Identifier: Apache-2.0
"""The hangs of one attempt: asks the watch in time, looks at stacks beside the ranks, and says what they show.

A look answers twice. Python stacks take milliseconds and nearly always suffice to name the rank: it is named at once.
Native stacks take seconds in frameworks of a gigabyte; only when they are there is anything decided, recorded or ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from keepstep.base.redact import redact
from keepstep.supervise.watch.activity import Activity
from keepstep.supervise.watch.hang_detector import BUSY_S, LEAST_S, Sign, Stop, Suspicion, Watch
from keepstep.supervise.watch.own_evidence import Records
from keepstep.supervise.watch.vitals import crowding

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from keepstep.supervise.watch.rank_stacks import Awaited, StacksLooked

LOOK_ALONG_S = 3.0
"""For stacks that are being taken when a rank fails."""
AT_WORK_S = 3.0
"""Children that had done something this recently when they were last seen are at work."""
DOUBTFUL_S = 30.0
"""A run that fails so soon after it stood still, without a step in between, failed because of that."""


class Hangs:
    """``tick`` with every sign of life; it answers with a stop when something must be decided."""

    def __init__(
        self,
        records: Records,
        looks: ThreadPoolExecutor,
        say: Callable[[str], None],
        *,
        least_s: float | None,
        forgiven: dict[str, float] | None = None,
    ) -> None:
        self._records = records
        self._looks = looks
        self._say = say
        self._watch = Watch(least_s=least_s, forgiven={} if forgiven is None else forgiven)
        self._activity = Activity()
        self._awaited: Awaited | None = None
        self._look: tuple[Suspicion, Future[StacksLooked]] | None = None
        self._glanced: StacksLooked | None = None
        """What the Python stacks showed; the thread that looks sets it."""
        self._named = False
        self._still: tuple[Suspicion, StacksLooked] | None = None
        """The last look at which nobody moved."""
        self._signs: list[Sign] = []
        self._seen_at = 0.0
        self._told: Stop | None = None
        self._moved: tuple[Stop, Awaited | None, float] | None = None
        """A stop after which ranks moved, whom it was about, and when they did: not forgotten yet."""
        self._held_until = 0.0

    @property
    def is_looking(self) -> bool:
        return self._look is not None

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to wonder about."""
        return self._look is None and self._told is None

    def hold(self, until: float) -> None:
        """Leave a suspected stop alone until then."""
        self._held_until = until

    def idle_s(self) -> float:
        """For how long those that the others wait for had shown no sign of work when they were last seen."""
        if self._told is not None and self._told.suspicion.kind == "polls":
            return self._seen_at - self._told.began
        return self._watch.idle_s(self._awaited.pids if self._awaited is not None else (), self._seen_at)

    @property
    def place(self) -> str | None:
        """Where in the script the first of those is that the others wait for."""
        return self._awaited.place if self._awaited is not None else None

    @property
    def endured_s(self) -> float | None:
        """The longest silence at that place that ended by itself."""
        return self._watch.forgiven.get(self.place) if self.place is not None else None

    def has_moved(self, stop: Stop, signs: list[Sign]) -> bool:
        """Whether a stop that was reported is over."""
        return self._watch.has_moved(stop.suspicion, signs)

    def tick(self, signs: list[Sign], now: float) -> Stop | None:
        """Returns what must be decided on: a new stop, or one whose waiting time is over."""
        self._watch.crowding = crowding()
        self._signs, self._seen_at = signs, now
        self._see_activity(now)
        if self._has_gone_on(signs, now):
            self.forget_moved()
        if self._look is not None:
            self._watch.note(signs)
            if self._look[1].done():
                return self._looked(signs, now)
            self._name_early(signs, now)
            return None
        suspicion = self._watch.see(signs, now)
        if suspicion is not None:
            from keepstep.supervise.watch.rank_stacks import look

            self._records.event(
                "suspicion",
                kind=suspicion.kind,
                quiet_s=round(suspicion.quiet_s, 2),
                limit_s=round(suspicion.limit_s, 2),
            )
            self._glanced, self._named = None, False
            self._look = (suspicion, self._looks.submit(look, suspicion.signs, early=self._glance))
            return None
        stop = self._watch.stopped
        if self._told is not None and stop is None:
            if self.place is not None:
                self._watch.forgiven[self.place] = max(self._told.quiet_s, self.endured_s or 0.0)
            self.forget_moved()
            self._moved, self._told = (self._told, self._awaited, now), None
            self._say("the run continues")
        if stop is not None and self._told is stop and self._held_until and now >= self._held_until:
            self._held_until = 0.0
            return replace(stop, at=now)
        return None

    def _has_gone_on(self, signs: list[Sign], now: float) -> bool:
        """Whether a rank has done a step since all stood still, or so long ago that a failure has other reasons."""
        if self._moved is None:
            return False
        stop, _, moved_at = self._moved
        steps = {sign.pid: sign.steps for sign in stop.suspicion.signs}
        return now - moved_at > DOUBTFUL_S or any(sign.steps > steps.get(sign.pid, sign.steps) for sign in signs)

    def forget_moved(self) -> None:
        """The run goes on, or ends well, or because the user wants it: a standstill before that is no reason."""
        if self._moved is None:
            return
        (stop, whom, _), self._moved = self._moved, None
        if self._told is None:
            self._records.forget_stop()
        self._record_end(stop, whom)

    def _record_end(self, stop: Stop, whom: Awaited | None) -> None:
        """A standstill that ended by itself, for whoever asks where the time went."""
        where = whom.words(len(stop.suspicion.signs)) if whom is not None else ""
        self._records.said(f"{stop.words}{where}, then the run continued")

    def _see_activity(self, now: float) -> None:
        """Once nothing moves: who works by the network or a GPU, and through the children that it waits for."""
        since = {
            sign.pid: sign.progress if sign.progress is not None else now - self._watch.idle_s((sign.pid,), now)
            for sign in self._signs
        }
        if now - max(since.values(), default=now) < LEAST_S:
            self._activity.forget()
            return
        for pid in self._activity.moved(since.keys(), now, since):
            self._watch.works(pid, now)
        if self._awaited is None or self._told is None:
            return
        for pid in self._awaited.pids:
            if (at := self._worked_below(pid, self._awaited)) is not None:
                self._watch.works(pid, at)

    def _worked_below(self, pid: int, whom: Awaited) -> float | None:
        return self._activity.children.worked(pid, awaited=pid in whom.for_children)

    def _with_children(self, suspicion: Suspicion, looked: StacksLooked, now: float) -> StacksLooked:
        """The look, knowing what processes below the awaited ranks do: where they work, nobody hangs."""
        from keepstep.supervise.watch.rank_stacks import awaited

        whom = awaited(Stop(suspicion=suspicion, proven=False, at=now), looked)
        worked = [at for pid in whom.pids if (at := self._worked_below(pid, whom)) is not None]
        if worked and self._activity.at - max(worked) < AT_WORK_S:
            quiet = suspicion.quiet_s + now - suspicion.at
            return replace(looked, still=False if quiet < BUSY_S else looked.still, sure=False)
        if any(self._activity.children.has_young(pid) for pid in whom.pids):
            return replace(looked, sure=looked.sure and looked.differ)
        return looked

    def look_too(self) -> None:
        """Ranks of another node have stopped: the stacks of ours, long enough to see whether they move."""
        from keepstep.supervise.watch.rank_stacks import look

        if self._look is None and self._told is None and self._signs:
            self._records.seen(look(list(self._signs)))

    def take_along(self, now: Callable[[], float]) -> None:
        """A rank has failed, or the user stops the run: take the stacks that are just being read, they may say why."""
        if self._look is None:
            self._keep_last_look(now())
            return
        (suspicion, future), self._look = self._look, None
        with contextlib.suppress(Exception):
            looked = future.result(timeout=LOOK_ALONG_S)
            stop = self._watch.looked(suspicion, still=looked.still, at=now(), sure=looked.sure)
            if stop is not None:
                self._records.stopped(stop, looked)

    def _keep_last_look(self, now: float) -> None:
        """Keep the last look if nothing has moved since: it was too early to report then, and now the run ends."""
        if self._still is None or self._told is not None:
            return
        suspicion, looked = self._still
        stop = self._watch.judge(suspicion, still=True, at=now, signs=self._signs)
        if stop is not None:
            self._records.stopped(replace(stop, proven=looked.still is True and looked.sure), looked)

    def _glance(self, looked: StacksLooked) -> None:
        self._glanced = looked

    def _name_early(self, signs: Sequence[Sign], now: float) -> None:
        """Say whom the others wait for as soon as Python stacks show it, while native ones are being taken."""
        assert self._look is not None
        if self._glanced is None or self._named or self._told is not None:
            return
        looked = self._with_children(self._look[0], self._glanced, now)
        if any(self._activity.children.has_young(sign.pid) for sign in signs):
            return  # what a rank has just started may be at work, which shows a moment later
        root = looked.report.root
        stop = self._watch.judge(self._look[0], still=looked.still, at=now, signs=signs, sure=looked.sure)
        if stop is None or root is None or not looked.names_one_of(signs):
            return
        self._named, title = True, redact(root.title)
        self._records.event("named", ranks=list(root.ranks), quiet_s=round(stop.quiet_s, 2), title=title)
        self._say(f"{stop.words}; looking closer before doing anything")
        self._say(f"  {title}")

    def _looked(self, signs: list[Sign], now: float) -> Stop | None:
        assert self._look is not None
        (suspicion, future), self._look = self._look, None
        try:
            looked = future.result()
        except Exception as error:
            self._say(f"the stacks could not be read ({type(error).__name__}: {error})")
            self._watch.looked(suspicion, still=False, at=now)
            return None
        looked = self._with_children(suspicion, looked, now)
        looked = replace(looked, still=looked.still_in(suspicion.kind))
        stop = self._watch.looked(suspicion, still=looked.still, at=now, signs=signs, sure=looked.sure)
        self._still = (suspicion, looked) if looked.still is not False else None
        self._records.event(
            "looked",
            still=looked.still,
            seen=looked.moves,
            stopped=stop is not None,
            proven=stop is not None and stop.proven,
        )
        if stop is None:
            if self._named:
                self._say("the run continues")
            if self._told is None and self._glanced is not None and self._glanced.names_one_of(signs):
                from keepstep.supervise.watch.rank_stacks import awaited

                short = Stop(suspicion=suspicion, proven=False, at=suspicion.at)
                whom = awaited(short, self._glanced)
                if self._named and self._moved is None:  # it may have gone on because a rank fails
                    self._records.stopped(short, self._glanced)
                    self._moved = (short, whom, now)
                else:
                    self._record_end(short, whom)
            return None
        before, self._told = self._told, stop
        self._await(stop, looked)
        self._records.stopped(stop, looked)
        news = before is None or (stop.proven and not before.proven)
        if not news and (not self._held_until or now < self._held_until):
            return None  # reported already, and left alone for a while
        return stop

    def _await(self, stop: Stop, looked: StacksLooked) -> None:
        from keepstep.supervise.watch.rank_stacks import awaited

        self._awaited = awaited(stop, looked)
