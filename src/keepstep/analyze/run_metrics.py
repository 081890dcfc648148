# SPDX-License-Identifier: Apache-2.0
"""What a run shows now, as metrics: totals and quantiles over ranks, and single ranks only where they matter.

From the run's folder alone. A value that is not current is no value: of a rank or host that is silent only its age is
shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from keepstep.analyze.goodput import findings_of, goodput
from keepstep.render.prometheus import Family
from keepstep.signals.goodput import Bucket, Goodput
from keepstep.store.history.reader import open_history
from keepstep.store.history.readings import GPU, HOST, RANK, READINGS, Reading
from keepstep.store.run_folders import read_manifest

FRESH_S = 30.0
WORST = 5
MOST_SUBJECTS = 64
"""Hosts, and GPUs."""
GOODPUT_EVERY_S, RESTS, QUICKLY_S = 30.0, 100, 0.2
"""How often it is added up where someone asks: also not before so many times the processor time that it took. An answer
waits for it this long."""
QUANTILES = {"lowest": 0.0, "median": 0.5, "p90": 0.9, "highest": 1.0}
UNITS = {"share": "ratio", "bytes": "bytes", "bytes/s": "bytes_per_second", "s": "seconds", "cores": "cores",
         "packets/s": "packets_per_second", "°C": "celsius"}  # fmt: skip
SINGLE = ("wait", "quiet_s", "step_s", "memory")
"""Readings whose worst ranks are shown one by one."""
LEFT_OUT = ("phase",)


def metric_name(reading: Reading) -> str:
    """``rank_step_seconds``, ``host_memory_ratio``."""
    name = reading.name.removesuffix("_s").removesuffix("_share").removeprefix(f"{reading.of}_")
    name = name.replace("celsius", "temperature")
    of = "tpu" if name.startswith("tpu_") else reading.of
    return "_".join(part for part in (of, name.removeprefix("tpu_"), UNITS.get(reading.unit, "")) if part)


class RunMetrics:
    """Of one run. ``families`` whenever someone asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history = open_history(folder)
        self._goodput: Goodput | None = None
        self._goodput_due = 0.0
        self._adding: threading.Thread | None = None

    def families(self, now: float | None = None) -> list[Family]:
        """``now``: seconds since the epoch."""
        now = time.time() if now is None else now
        self._history.refresh()
        return [*self._of_run(now), *self._of_ranks(now), *self._of_others(now)]

    def _of_run(self, now: float) -> Iterable[Family]:
        manifest = read_manifest(self._folder)
        about = Family("run_info", "The run that is watched")
        about.add(1.0, run=self._folder.name)
        yield about
        if manifest is not None:
            for name, help_, value in (
                ("attempt", "The number of the attempt that runs, from 0", float(len(manifest.attempts) - 1)),
                ("run_age_seconds", "Time since the run began", (manifest.ended or now) - manifest.began),
                ("ranks_expected", "Ranks that the run has", float(manifest.ranks)),
            ):
                family = Family(name, help_)
                family.add(value)
                yield family
            restarts = Family("restarts_total", "How often the run was started again", "counter")
            restarts.add(float(max(0, len(manifest.attempts) - 1)))
            yield restarts
            found = Family("finding", "A finding of the newest report: 1, with its cause and its first rank")
            for each in findings_of(self._folder)[:WORST]:
                ranks = each.get("ranks")
                rank = str(ranks[0]) if isinstance(ranks, list) and ranks else ""
                found.add(1.0, cause=str(each.get("cause", ""))[:80], rank=rank)
            yield found
        good = self._added_up()
        if good is not None:
            share = Family("goodput_ratio", "Share of the time of all ranks that was training")
            share.add(good.share)
            spent = Family("time_seconds", "Time of all ranks so far, by what they did")
            for bucket in Bucket:
                spent.add(good.buckets.get(bucket, 0.0), bucket=bucket.value)
            yield from (share, spent)

    def _added_up(self) -> Goodput | None:
        """Where the time went, as it was added up last: of many ranks that takes seconds, for which nobody waits."""
        if self._adding is None and time.monotonic() >= self._goodput_due:
            self._adding = threading.Thread(target=self._add_up, daemon=True)
            self._adding.start()
            self._adding.join(QUICKLY_S)
        return self._goodput

    def _add_up(self) -> None:
        began = time.thread_time()
        try:
            self._goodput = goodput(self._folder)
        finally:
            self._goodput_due = time.monotonic() + max(GOODPUT_EVERY_S, RESTS * (time.thread_time() - began))
            self._adding = None

    def _of_ranks(self, now: float) -> Iterable[Family]:
        newest = self._history.newest(RANK)
        last = {rank: each.values for rank, each in sorted(newest.items())}
        ages = {rank: now - each.at for rank, each in newest.items()}
        silent = sum(age > FRESH_S for age in ages.values())
        for name, help_, number in (
            ("ranks_seen", f"Ranks that were measured in the last {FRESH_S:.0f} s", len(ages) - silent),
            ("ranks_silent", "Ranks that were measured before, and not since", silent),
        ):
            family = Family(name, help_)
            family.add(float(number))
            yield family
        found = findings_of(self._folder)
        named = {rank for each in found for rank in each.get("ranks") or () if isinstance(rank, int)}
        for reading in (each for each in READINGS.values() if each.of == RANK and each.name not in LEFT_OUT):
            values = {rank: value for rank, each in last.items() if (value := _fresh(each, reading, now)) is not None}
            over, ordered = Family(metric_name(reading), f"{reading.read}; over the ranks"), sorted(values.values())
            for which, quantile in QUANTILES.items() if values else ():
                over.add(ordered[round(quantile * (len(ordered) - 1))], ranks=which)
            yield over
            if reading.name in SINGLE:
                what = f"{reading.read}; the worst ranks, and those with findings"
                single = Family(f"worst_{metric_name(reading)}", what)
                worst = sorted(values, key=lambda rank: -values[rank])[:WORST]
                for rank in sorted({*worst, *(named & values.keys())}):
                    single.add(values[rank], rank=str(rank))
                yield single

    def _of_others(self, now: float) -> Iterable[Family]:
        for kind in (HOST, GPU):
            newest = sorted(self._history.newest(kind).items())[:MOST_SUBJECTS]
            for reading in (each for each in READINGS.values() if each.of == kind):
                family = Family(metric_name(reading), reading.read)
                for subject, each in newest:
                    family.add(_fresh(each.values, reading, now), **{kind: str(subject)})
                yield family
            age = Family(f"{kind}_age_seconds", f"Time since the {kind} was last measured")
            for subject, each in newest:
                age.add(max(0.0, now - each.at), **{kind: str(subject)})
            yield age


def _fresh(values: Mapping[str, tuple[float, float]], reading: Reading, now: float) -> float | None:
    value, at = values.get(reading.name, (None, 0.0))
    if value is None and reading.kept == "mean" and "phase" in values:  # a phase in which it was not
        value, at = 0.0, values["phase"][1]
    return value if value is not None and now - at <= FRESH_S else None
