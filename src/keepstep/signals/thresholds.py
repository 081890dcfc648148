# SPDX-License-Identifier: Apache-2.0
"""Limits on what is measured: when one is passed for long enough, or will be, and when that is over. Pure.

A value that swings around its limit gives one alert: an episode begins when it has been beyond the limit for as long as
asked, where going back a little and for less than that does not count, nor does a moment, and ends only when it has
been back behind a second, easier limit for as long. A forecast that did not come true is made again only of a worse
value than any then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from keepstep.base.wording import duration, size

FOR_S, PAUSE_S = 30.0, 300.0
EASIER = 0.05
"""By how much of the limit the second one is easier, unless it is given."""
BREAKS = 0.05
"""How long a value must be well to count as back, as a part of the time that it must be beyond the limit."""
LOOKS = 60
"""Of the past, for a forecast."""
FITS = 0.9
"""A straight line must explain this much of how the values vary."""
OF_THE_LIMIT = 0.5
"""A forecast says nothing of values that are still less than this part of the limit."""


@dataclass(frozen=True)
class Threshold:
    """A limit on a reading (see ``store/history/readings.py``), and what to do beyond it."""

    reading: str
    limit: float
    below: bool = False
    """Whether less is worse."""
    for_s: float = FOR_S
    clear: float | None = None
    """Behind this, all is well again."""
    forecast_s: float | None = None
    """Also if the limit will be reached in this time, should the value go on as it does."""
    do: tuple[str, ...] = ("warn",)
    pause_s: float = PAUSE_S
    """The longest pause that it may ask for."""

    @property
    def is_clear_at(self) -> float:
        easier = self.limit * (1 + EASIER if self.below else 1 - EASIER)
        return easier if self.clear is None else self.clear

    def is_beyond(self, value: float, limit: float) -> bool:
        return value < limit if self.below else value > limit


@dataclass(frozen=True)
class Alert:
    """An episode that begins, or ends."""

    threshold: Threshold
    subject: int | str
    value: float
    begins: bool = True
    in_s: float | None = None
    """It is a forecast: the limit will be reached in this time. Of an end: it was one, and has not come true."""
    swung: bool = False
    """The value was not beyond the limit all the time."""

    def words(self, unit: str, what: str) -> str:
        """``what``: what was read. In one line."""
        whose = f"rank {self.subject}" if isinstance(self.subject, int) else f"{self.subject}"
        limit = in_unit(self.threshold.limit, unit)
        now = f"{whose}, {what}: {in_unit(self.value, unit)}"
        side = "below" if self.threshold.below else "above"
        if not self.begins:
            return f"{now}, no longer {side if self.in_s is None else 'on the way to'} {limit}"
        if self.in_s is not None:
            return f"{now}; at this rate it reaches {limit} in {duration(self.in_s)}"
        long = f" for {duration(self.threshold.for_s)}" if self.threshold.for_s else ""
        return f"{now}, {side} {limit}{' again and again' if self.swung else ''}{long}"


def in_unit(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.0f} %"
    if unit.startswith("bytes"):
        return size(value) + unit.removeprefix("bytes")
    return f"{value:.3g} {unit}".rstrip()


@dataclass
class _Episode:
    """One threshold and one subject."""

    beyond_since: float | None = None
    last_beyond: float = 0.0
    swung: bool = False
    """Whether it has been back since, a little and not for long."""
    clear_since: float | None = None
    told: bool = False
    in_s: float | None = None
    """It was told as a forecast, which has not come true."""
    worst: float | None = None
    """Of the episodes that were such forecasts."""
    past: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LOOKS))


@dataclass
class Thresholds:
    """All of them, over time."""

    rows: tuple[Threshold, ...]
    _episodes: dict[tuple[int, int | str], _Episode] = field(default_factory=dict)

    def see(self, measured: Mapping[int | str, Mapping[str, float]], at: float) -> Iterable[Alert]:
        """``measured``: by subject and reading. ``at``: seconds of any clock, rising."""
        for number, row in enumerate(self.rows):
            for subject, values in measured.items():
                value = values.get(row.reading)
                if value is None or value != value or not row.do:
                    continue
                alert = _judge(row, self._episodes.setdefault((number, subject), _Episode()), subject, value, at)
                if alert is not None:
                    yield alert


def _judge(row: Threshold, episode: _Episode, subject: int | str, value: float, at: float) -> Alert | None:
    beyond, clear = row.is_beyond(value, row.limit), not row.is_beyond(value, row.is_clear_at)
    reaches_s = _reaches(row, episode.past, value, at)
    if not (clear and reaches_s is None):
        episode.clear_since = None
    elif episode.clear_since is None:
        episode.clear_since = at
    clear_s = at - episode.clear_since if episode.clear_since is not None else -1.0
    if beyond:
        episode.beyond_since = at if episode.beyond_since is None else episode.beyond_since
        episode.last_beyond, episode.in_s, episode.worst = at, None, None
    elif clear_s >= row.for_s * BREAKS or at - episode.last_beyond > row.for_s:
        episode.beyond_since, episode.swung = None, False
    else:
        episode.swung = True
    if not episode.told:
        if beyond and episode.beyond_since is not None and at - episode.beyond_since >= row.for_s:
            episode.told = True
            return Alert(row, subject, value, swung=episode.swung)
        if reaches_s is not None and (episode.worst is None or row.is_beyond(value, episode.worst)):
            episode.told, episode.in_s, episode.worst = True, reaches_s, value
            return Alert(row, subject, value, in_s=reaches_s)
        return None
    if episode.in_s is not None and (episode.worst is None or row.is_beyond(value, episode.worst)):
        episode.worst = value
    if clear_s >= row.for_s:
        episode.told = False
        return Alert(row, subject, value, begins=False, in_s=episode.in_s)
    return None


def _reaches(row: Threshold, past: deque[tuple[float, float]], value: float, at: float) -> float | None:
    """In how many seconds the limit is reached, if the values have risen steadily and that is soon."""
    if row.forecast_s is None:
        return None
    if not past or at - past[-1][0] >= max(row.forecast_s / 10 / LOOKS, 0.5):
        past.append((at, value))
    return reaches(past, row.limit, row.forecast_s, below=row.below)


def reaches(past: Sequence[tuple[float, float]], limit: float, within_s: float, *, below: bool = False) -> float | None:
    """In how many seconds values reach a limit, if they have moved there steadily and that is soon. The newest last."""
    if len(past) < LOOKS // 2:
        return None
    value = past[-1][1]
    near = value < limit / OF_THE_LIMIT if below else value > limit * OF_THE_LIMIT
    if not near or (value < limit if below else value > limit):
        return None
    middle, mean = (sum(each) / len(past) for each in zip(*past, strict=True))
    spread = sum((time - middle) ** 2 for time, _ in past)
    together = sum((time - middle) * (each - mean) for time, each in past)
    varies = sum((each - mean) ** 2 for _, each in past)
    if spread <= 0 or varies <= 0 or together * together < FITS * spread * varies:
        return None
    slope = together / spread
    left = (limit - value) / slope if slope else -1.0
    return left if 0 < left <= within_s else None
