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
from keepstep.model.report import Verdict
from keepstep.supervise.watch.activity import Activity
from keepstep.supervise.watch.hang_detector import Sign, Stop, Suspicion, Watch
from keepstep.supervise.watch.own_evidence import Records
from keepstep.supervise.watch.vitals import crowding

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from keepstep.supervise.watch.rank_stacks import StacksLooked

LOOK_ALONG_S = 3.0
"""For stacks that are being taken when a rank fails."""


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
        self._awaited: frozenset[int] = frozenset()
        """The processes that the others wait for, by stacks and boxes."""
        self.place: str | None = None
        """Where in the script the first of them is."""
        self._look: tuple[Suspicion, Future[StacksLooked]] | None = None
        self._glanced: StacksLooked | None = None
        """What the Python stacks showed; the thread that looks sets it."""
        self._named = False
        self._still: tuple[Suspicion, StacksLooked] | None = None
        """The last look at which nobody moved."""
        self._signs: list[Sign] = []
        self._told: Stop | None = None
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

    def idle_s(self, now: float) -> float:
        """For how long those that the others wait for have shown no sign of work."""
        return self._watch.idle_s(self._awaited, now)

    def tick(self, signs: list[Sign], now: float) -> Stop | None:
        """Returns what must be decided on: a new stop, or one whose waiting time is over."""
        self._watch.crowding = crowding()
        self._signs = signs
        if self._look is not None:
            if self._look[1].done():
                return self._looked(signs, now)
            self._name_early(signs, now)
            return None
        suspicion = self._watch.see(signs, now)
        if self._told is not None:
            for pid in self._activity.moved(self._awaited, now):
                self._watch.works(pid, now)
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
            self._told = None
            self._records.forget_stop()
            self._say("the run continues")
        if stop is not None and self._told is stop and self._held_until and now >= self._held_until:
            self._held_until = 0.0
            return replace(stop, at=now)
        return None

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
        looked = self._glanced
        if looked is None or self._named or self._told is not None:
            return
        root = looked.report.root
        stop = self._watch.judge(self._look[0], still=looked.still, at=now, signs=signs, sure=looked.sure)
        if (
            stop is None
            or root is None
            or looked.report.verdict is not Verdict.HUNG
            or not 0 < len(root.ranks) < len(signs)
        ):
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

        self._awaited, self.place = awaited(stop, looked)
        self._activity.forget()
