# SPDX-License-Identifier: Apache-2.0
"""Limits and notices of a run, from ``keepstep.toml``.

    [[threshold]]
    reading = "host_memory_share"
    above = 0.9
    for = "30s"
    forecast = "10m"
    do = ["warn", "webhook", "checkpoint"]

    [notices]
    webhook = "https://example.org/hook"      # or slack = "..." or command = "..."
    on = ["hang", "restart", "ended", "no progress"]
    no_progress = "15m"

A file that was merely found may be a stranger's: its limits count, but it names no address and no command, and all it
can do is warn. ``--config`` and the user's own ``config.toml`` can do everything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keepstep.base.did_you_mean import did_you_mean
from keepstep.errors import UserError
from keepstep.extend.rule_folders import USERS, Unusable, found_upwards, read_toml, user_folder
from keepstep.signals.thresholds import FOR_S, PAUSE_S, Threshold

ACTIONS = ("warn", "webhook", "command", "checkpoint", "pause", "fewer", "stop")
KINDS = ("hang", "restart", "ended", "no progress")
NO_PROGRESS_S = 900.0
GB = 1e9
DEFAULTS = (
    Threshold("host_memory_share", 0.92, forecast_s=600.0),
    Threshold("disk_share", 0.95, forecast_s=1800.0),
    Threshold("shm_share", 0.9),
    Threshold("files_share", 0.85),
    Threshold("swap", 4 * GB, for_s=60.0),
    Threshold("net_share", 0.98, for_s=300.0, clear=0.9),
    Threshold("net_drops", 100.0, for_s=60.0, clear=50.0),
    Threshold("net_retransmits", 0.05, for_s=60.0, clear=0.025),
    Threshold("gpu_memory_share", 0.99, for_s=60.0),
    Threshold("device_memory_share", 0.98, for_s=60.0, forecast_s=600.0),
    Threshold("gpu_busy", 0.1, below=True, for_s=600.0, clear=0.2),
    Threshold("gpu_celsius", 87.0, for_s=60.0),
    Threshold("gpu_ecc", 0.5, for_s=0.0, clear=0.5),
    Threshold("tpu_memory_share", 0.99, for_s=60.0),
    Threshold("tpu_busy", 0.1, below=True, for_s=600.0, clear=0.2),
)
"""What is warned about unless the user says otherwise. Busy processors are no fault of a training on processors.

Rates vary from second to second: they have to go back further than other readings to be well again."""


@dataclass(frozen=True)
class NoticeSettings:
    """Whom to tell, and of what."""

    webhook: str | None = None
    slack: str | None = None
    command: str | None = None
    on: tuple[str, ...] = KINDS
    no_progress_s: float = NO_PROGRESS_S

    @property
    def any(self) -> bool:
        return any((self.webhook, self.slack, self.command))


@dataclass(frozen=True)
class RunSettings:
    thresholds: tuple[Threshold, ...] = DEFAULTS
    notices: NoticeSettings = NoticeSettings()
    problems: tuple[str, ...] = ()
    """What was left out, in words."""


def read_run_settings(config: Path | None, start: Path, readings: Mapping[str, object]) -> RunSettings:
    """``config``: the file that the user named; without one, the nearest. ``readings``: what can be limited.

    Raises ``UserError`` if the named one cannot be used.
    """
    problems: list[str] = []
    rows: list[Threshold] = []
    notices = NoticeSettings()
    for path, trusted in _files(config, start):
        named = path == config
        try:
            said = read_toml(path, own=not named)
            more, told = _thresholds(said, readings), _notices(said)
        except (OSError, Unusable) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else str(wrong)
            if named:
                raise UserError(f"{path}: {why}") from wrong
            problems.append(f"{path} is left out: {why}")
            continue
        if not trusted:
            refused = sorted({word for row in more for word in row.do} - {"warn"}) + (["[notices]"] if told else [])
            if refused:
                problems.append(f"{path}: {', '.join(refused)} needs `--config {path.name}`: nobody named this file")
            more, told = [_only_warns(row) for row in more], None
        rows += [row for row in more if row.reading not in {each.reading for each in rows}]
        notices = told if told is not None and not notices.any else notices
    own = {row.reading for row in rows}
    return RunSettings((*rows, *(row for row in DEFAULTS if row.reading not in own)), notices, tuple(problems))


def _files(config: Path | None, start: Path) -> Iterator[tuple[Path, bool]]:
    """The files that count, the first one most; and whether each may do more than warn."""
    if config is not None:
        yield config, True
    else:
        nearest = next(found_upwards(start), None)
        if nearest is not None:
            yield nearest, False
    home = user_folder()
    if home is not None and os.path.lexists(home / USERS):
        yield home / USERS, True


def _only_warns(row: Threshold) -> Threshold:
    return replace(row, do=("warn",) if row.do else ())


def _thresholds(said: Mapping[str, Any], readings: Mapping[str, object]) -> list[Threshold]:
    rows = said.get("threshold", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unusable("write each limit as [[threshold]]")
    return [_threshold(row, readings) for row in rows]


def _threshold(row: Mapping[str, Any], readings: Mapping[str, object]) -> Threshold:
    name = row.get("reading")
    if not isinstance(name, str) or name not in readings:
        raise Unusable(f"[[threshold]]: there is no reading {name!r}{_like(str(name), readings)}")
    _only(row, ("reading", "above", "below", "for", "clear", "forecast", "do", "pause"), f"[[threshold]] {name}")
    do = row.get("do", ["warn"])
    if not isinstance(do, list) or not set(map(str, do)) <= set(ACTIONS):
        raise Unusable(f"[[threshold]] {name}: do is a list of {', '.join(ACTIONS)}")
    sides = [side for side in ("above", "below") if side in row]
    if len(sides) != 1 and do:
        raise Unusable(f"[[threshold]] {name}: give either above or below")
    side = sides[0] if sides else "above"
    return Threshold(
        reading=name,
        limit=_number(row.get(side, 0.0), f"{name}: {side}"),
        below=side == "below",
        for_s=_seconds(row.get("for", FOR_S), f"{name}: for"),
        clear=_number(row["clear"], f"{name}: clear") if "clear" in row else None,
        forecast_s=_seconds(row["forecast"], f"{name}: forecast") if "forecast" in row else None,
        do=tuple(dict.fromkeys(("warn", *do))) if do else (),
        pause_s=_seconds(row.get("pause", PAUSE_S), f"{name}: pause"),
    )


def _notices(said: Mapping[str, Any]) -> NoticeSettings | None:
    given = said.get("notices")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise Unusable("[notices] must be a table")
    _only(given, ("webhook", "slack", "command", "on", "no_progress"), "[notices]")
    for name in ("webhook", "slack"):
        if name in given and not str(given[name]).startswith(("http://", "https://")):
            raise Unusable(f"[notices] {name} must be an address that begins with http:// or https://")
    on = given.get("on", list(KINDS))
    if not isinstance(on, list) or not set(map(str, on)) <= set(KINDS):
        raise Unusable(f"[notices] on is a list of {', '.join(KINDS)}")
    return NoticeSettings(
        **{name: str(given[name]) for name in ("webhook", "slack", "command") if given.get(name)},
        on=tuple(on),
        no_progress_s=_seconds(given.get("no_progress", NO_PROGRESS_S), "[notices] no_progress"),
    )


def _only(row: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in row:
        if name not in known:
            raise Unusable(f"{where}: there is no setting {name!r}{_like(name, known)}")


def _like(word: str, known: Iterable[str]) -> str:
    hint = did_you_mean(word, known)
    return f"; {hint}" if hint is not None else ""


def _number(value: Any, where: str) -> float:
    if type(value) not in (int, float) or value != value:
        raise Unusable(f"[[threshold]] {where} must be a number")
    return float(value)


def _seconds(value: Any, where: str) -> float:
    """``30``, ``"30s"``, ``"10m"`` or ``"2h"``."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|min|h)?", str(value).strip().lower())
    if found is None:
        raise Unusable(f'{where} must be a time such as 30, "30s" or "10m"')
    return float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[found[2] or "s"]
