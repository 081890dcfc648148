# SPDX-License-Identifier: Apache-2.0
"""Limits on what is measured while ranks run: says that one was passed, then does what the user asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.wording import duration, size
from keepstep.errors import KeepstepError
from keepstep.extend.run_settings import RunSettings
from keepstep.signals.thresholds import LOOKS, Alert, Thresholds
from keepstep.store.history.readings import READINGS
from keepstep.store.pause_request import ASKS
from keepstep.supervise.show.notices import Notices
from keepstep.supervise.start.launch import Job
from keepstep.supervise.watch.pause import Pause

DOES = {
    "webhook": "posting it",
    "command": "calling the command",
    "checkpoint": "asking the ranks to save",
    "pause": ASKS,
    "fewer": "going on with one rank fewer, after the next checkpoint or in 60 s",
    "stop": "stopping the run, which is kept",
}
SAVES_S = 60.0
"""For a checkpoint, before the run goes on with fewer ranks."""


def not_possible(settings: RunSettings, job: Job) -> Iterator[str]:
    """What limits ask for and this job cannot do, in words: to be said before it starts."""
    why_step = "parameter servers have no common step" if job.servers else None
    refused = {"fewer": job.why_this_size, "pause": why_step}
    for row in settings.thresholds:
        for action in row.do:
            if why := refused.get(action):
                yield f"the limit on {row.reading} cannot do `{action}`: {why}"


@dataclass
class Alarms:
    """Of one run, over all its attempts. ``stop``: end the run; None where that is not ours to do."""

    settings: RunSettings
    say: Callable[[str], None]
    stop: Callable[[], None] | None = None
    saves: bool = True
    """Whether ranks may be asked to save."""
    notices: Notices = field(init=False)
    _thresholds: Thresholds = field(init=False)
    fewer_at: float | None = None
    """When a limit was passed for which the run goes on with fewer ranks."""
    _job: Job | None = None
    _told_quiet: bool = False
    _pause: Pause | None = None
    _ranks: deque[tuple[float, Mapping[int | str, Mapping[str, float]]]] = field(
        default_factory=lambda: deque(maxlen=LOOKS)
    )
    """What the ranks showed, and when."""

    def __post_init__(self) -> None:
        self.notices = Notices(self.settings.notices, self.say)
        self._thresholds = Thresholds(self.settings.thresholds)

    @property
    def readings(self) -> tuple[str, ...]:
        """What must be measured: for the limits, for what is said of them, and for the status line."""
        limited = {each.reading for each in self.settings.thresholds if each.do}
        return tuple(sorted({*limited, "step", "memory", "left_s"}))

    def see(
        self,
        measured: Mapping[str, Mapping[int | str, Mapping[str, float]]],
        now: float,
        run: Path,
        quiet_s: float | None = None,
        say: Callable[[str], None] | None = None,
        pause: Pause | None = None,
        job: Job | None = None,
    ) -> None:
        """``measured``: by kind, subject and reading. ``quiet_s``: for how long no rank has moved.

        ``pause``: that of the attempt; None where ranks may not be asked for one. ``job``: what runs, if we started it.
        """
        self._pause, self._job = pause, job
        self._ranks.append((now, measured.get("rank", {})))
        for subjects in measured.values():
            for alert in self._thresholds.see(subjects, now):
                self._tell(alert, run, say or self.say)
                if pause is not None and "pause" in alert.threshold.do:
                    pause.hear(alert, now)
                if alert.begins and "fewer" in alert.threshold.do and self._can("fewer"):
                    self.fewer_at = self.fewer_at or now
        limit = self.settings.notices.no_progress_s
        if quiet_s is not None and quiet_s >= limit and not self._told_quiet:
            self.notices.send("no progress", f"no rank has made progress for {duration(quiet_s)}", run)
        self._told_quiet = quiet_s is not None and quiet_s >= limit

    def _tell(self, alert: Alert, run: Path, say: Callable[[str], None]) -> None:
        reading = READINGS[alert.threshold.reading]
        words = alert.words(reading.unit, reading.read)
        if alert.begins and alert.in_s is not None:
            words += self._about_step(alert.in_s)
        if alert.begins and reading.name in ("host_memory", "host_memory_share"):
            words += self._who_grows()
        acts = [each for each in alert.threshold.do if each in DOES and alert.begins and self._can(each)]
        say(f"{words}; {' and '.join(DOES[each] for each in acts)}" if acts else words)
        ways = tuple(each for each in acts if each in ("webhook", "command"))
        if ways:
            self.notices.send("threshold", words, run, ways=ways)
        if "checkpoint" in acts:
            threading.Thread(target=self._save, args=(run,), daemon=True).start()
        if "stop" in acts and self.stop is not None:
            self.stop()

    def _about_step(self, in_s: float) -> str:
        """Which step that will be, by the pace of the rank that is ahead."""
        (then, before), (now, ranks) = self._ranks[0], self._ranks[-1]
        rose = _rose("step", before, ranks)
        if now <= then or not rose or max(rose.values()) <= 0:
            return ""
        step = max(each["step"] for each in ranks.values() if "step" in each)
        return f", at about step {step + in_s * max(rose.values()) / (now - then):.0f}"

    def _who_grows(self) -> str:
        (then, before), (now, ranks) = self._ranks[0], self._ranks[-1]
        rose = _rose("memory", before, ranks)
        most = max(rose, key=lambda rank: rose[rank], default=None)
        if most is None or rose[most] <= 0:
            return "; no rank grows"
        return f"; rank {most} grows most, by {size(rose[most])} in {duration(now - then)}"

    def _can(self, action: str) -> bool:
        can = {"checkpoint": self.saves, "pause": self._pause is not None, "stop": self.stop is not None}
        can["fewer"] = self._job is not None and self._job.why_this_size is None
        return can.get(action, True)

    def _save(self, run: Path) -> None:
        from keepstep.supervise.save_now import save_now

        try:
            answer = save_now(run)
            self.say(
                f"the ranks save at about step {answer.step}"
                if answer.step is not None
                else "the ranks were asked to save and have not answered"
            )
        except (KeepstepError, OSError) as error:
            self.say(f"the ranks cannot be asked to save: {error}")


def _rose(
    name: str, before: Mapping[int | str, Mapping[str, float]], now: Mapping[int | str, Mapping[str, float]]
) -> dict[int | str, float]:
    """By how much a reading of each rank rose."""
    known = [rank for rank, each in now.items() if name in each and name in before.get(rank, {})]
    return {rank: now[rank][name] - before[rank][name] for rank in known}
