# SPDX-License-Identifier: Apache-2.0
"""A run folder as it is now, of a run that is live, finished, copied or crashed. Reads, and never writes.

What is dear is done rarely: a live attempt is explained again only after many times what the last time took, so looking
at a run takes a bounded part of a core, whatever its size.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from keepstep.analyze.goodput import goodput
from keepstep.base import foreign_json
from keepstep.base.redact import redact, redacted
from keepstep.base.safe_files import open_regular
from keepstep.errors import KeepstepError, UserError
from keepstep.model.codec import report_to_dict
from keepstep.model.report import SCHEMA
from keepstep.signals.goodput import Goodput
from keepstep.signals.pace import late_by_durations, late_ranks
from keepstep.store import run_folders
from keepstep.store.history.reader import open_history
from keepstep.store.history.readings import RANK
from keepstep.store.run_folders import AttemptSaid, Listed, RunManifest
from keepstep.watch.guard_folder import manifest_of_guards
from keepstep.watch.history_past import OLD_S, HistoryPast, ranks_in, with_readings
from keepstep.watch.host_table import hosts_in
from keepstep.watch.links import links_in
from keepstep.watch.past import WORDS, Cell, Past
from keepstep.watch.problems import per_hour, problems, slow_rank, told
from keepstep.watch.rank_boxes import STEPS, RankBox, read_boxes
from keepstep.watch.recorded_past import RecordedPast
from keepstep.watch.run_view import AttemptView, LinksView, Problem, RankView, RunView

LARGEST_REPORT = 64 << 20
RESTS, RESTS_IF_STOPPED = 60, 10
"""Between two looks, and two explanations, lies this many times the processor time that the last one took."""
LEAST_S, LEAST_REST_S = 2.0, 5.0
MOST_ATTEMPTS = 4
"""Attempts whose boxes are read for the past: the last ones."""
WAITS_MUCH = 0.3
QUICKLY = 64
"""Ranks, up to which the time is added up at once."""
MOST_LOST = 12
MOST_COMPARED = 512
SETTLES_S = 30.0
"""After the end of a run: then all has been written."""
_explaining = threading.Lock()
"""The log scanner is not made for several threads."""


class RunLook:
    """One run, looked at again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._of_guards = False
        """There is no supervisor: all is in one folder."""
        if self._read_manifest() is None:
            neither = "it has neither a manifest.json of `keepstep run` nor boxes of guards"
            why = run_folders.manifest_problem(folder) or neither
            raise UserError(f"{folder} is no run folder: {why}", hint="`keepstep runs` lists the runs in this folder")
        self._reports: dict[int, dict[str, Any]] = {}
        """Of attempts that are over."""
        self._live: dict[str, Any] = {}
        self._live_of: int | None = None
        self._explained_live = self._is_settled = False
        self._explained_stopped: frozenset[int] = frozenset()
        self._due = self._soon = 0.0
        self._began_s = self._explained_s = 0.0
        self._boxes: dict[int, list[RankBox]] = {}
        self._history = open_history(folder)
        self._blamed: tuple[int, ...] = ()
        self._links: dict[int, LinksView | None] = {}
        self._goodput: Goodput | None = None
        self._goodput_due = 0.0
        self._looks = 0
        self._now = time.time()
        self._over: float | None = None
        """When the run ended; None: it goes on."""
        self._manifest: RunManifest | None = None

    def see(self) -> RunView:
        """As it is now."""
        self._began_s, self._explained_s = time.thread_time(), 0.0
        manifest = self._read_manifest() or self._manifest
        assert manifest is not None  # it was there at the start; half a copy keeps the last one
        self._manifest = manifest
        state = manifest.state if self._of_guards else Listed(self.folder, manifest).state
        is_live = state == "running"
        self._now = time.time()
        attempts, trouble = manifest.attempts, []
        last = attempts[-1] if attempts else None
        boxes = self._read_boxes(attempts, is_live)
        world = max(manifest.ranks, len({each.rank for each in boxes}))  # a launcher is one command of several ranks
        self._over = None if is_live else _end(manifest, boxes)
        at = self._now if self._over is None else self._over
        for said in attempts[-1 - MOST_ATTEMPTS :]:
            with contextlib.suppress(OSError, ValueError):
                self._report(said, is_live and said is last)
        try:
            if last is not None and last.number not in self._reports:
                self._explain(last, is_live, self._stopped(boxes) if is_live else frozenset())
        except (KeepstepError, OSError) as error:
            trouble.append(str(error))
        reports = {**self._reports, **({self._live_of: self._live} if self._live_of is not None else {})}
        found = problems(reports, attempts, world=world, costs=self._costs(boxes, manifest) if is_live else "")
        self._add_up(is_live)
        slow = self._slow_rank(last, is_live)
        if slow is not None and not any(each.cause.startswith("slow.") for each in found):
            found = (*found, slow)
        blamed = {rank for each in found if each.role == "initiating" for rank in each.ranks}
        ranks = self._ranks(boxes, blamed, at, is_live)
        found = tuple(_since_they_stopped(each, ranks, at) for each in found)
        steps = [each.steps for each in ranks]
        usual = sorted(each.step_s for each in ranks if each.step_s is not None)
        return RunView(
            name=manifest.name,
            folder=str(self.folder),
            command=redact(shlex.join(manifest.command)),
            state=state,
            status=manifest.status,
            verdict=str(reports.get(last.number, {}).get("verdict", "unknown")) if last is not None else "unknown",
            began=manifest.began,
            ended=None if is_live else at,
            at=at,
            world=world,
            problems=found,
            said=told(reports.values()),
            attempts=tuple(_attempt(each) for each in attempts),
            ranks=ranks,
            steps=min(steps, default=(last.steps if last is not None else None) or 0),
            step_s=usual[len(usual) // 2] if usual else None,
            hosts=hosts_in(self._history, ranks, at, is_live=is_live),
            left_s=self._left_s(at) if is_live else None,
            goodput=self._goodput.share if self._goodput is not None else None,
            lost=_lost(self._goodput) if self._goodput is not None else (),
            links=self._newest_links(attempts),
            trouble=tuple(trouble),
        )

    @property
    def rest_s(self) -> float:
        """How long to wait before the next look, by what this thread has done since the last :meth:`see` began."""
        return max(LEAST_S, RESTS * (time.thread_time() - self._began_s - self._explained_s))

    def past(self) -> Past:
        """What was recorded over time; as of the last :meth:`see`. Boxes are finer, the history goes further back."""
        assert self._manifest is not None
        self._history.refresh()
        history = HistoryPast(
            self._history, self._blamed, self._now if self._over is None else self._over, live=self._over is None
        )
        boxes = [each for some in self._boxes.values() for each in some]
        covered = bool(boxes) and len(self._manifest.attempts) <= MOST_ATTEMPTS and all(each.is_whole for each in boxes)
        if self._history.ranks and not covered:
            return history
        said = {each.number: each.ended for each in self._manifest.attempts}
        ended = {number: said.get(number) or self._over for number in self._boxes}
        return RecordedPast(self._boxes, ended, self._now, history)

    def attempt_at(self, at: float) -> int:
        """The attempt that ran at a time: the last one that had begun."""
        assert self._manifest is not None
        begun = [each.number for each in self._manifest.attempts if each.began <= at]
        return begun[-1] if begun else next((each.number for each in self._manifest.attempts), 0)

    def box_of(self, rank: int, attempt: int) -> RankBox | None:
        """What a rank recorded in an attempt, all of it."""
        known = next((each for each in self._boxes.get(attempt, ()) if each.rank == rank), None)
        if known is None or known.is_whole:
            return known
        found = read_boxes(self.attempt_folder(attempt), whole=True, rank=rank)
        return next((each for each in found if each.rank == rank), known)

    def attempt_folder(self, number: int) -> Path:
        return self.folder if self._of_guards else self.folder / f"attempt-{number}"

    def _read_manifest(self) -> RunManifest | None:
        found = run_folders.read_manifest(self.folder)
        if found is None and run_folders.manifest_problem(self.folder) is None:
            found = manifest_of_guards(self.folder)
            self._of_guards = found is not None
        return found

    def _slow_rank(self, last: AttemptSaid | None, is_live: bool) -> Problem | None:
        if self._goodput is None or last is None:
            return None
        nodes = any(self.attempt_folder(last.number).glob("node*/"))
        return slow_rank(self._goodput, str(self.folder), live=is_live, nodes=nodes)

    def _add_up(self, is_live: bool) -> None:
        """Where the time went: dear for many ranks, so it is asked rarely, and not before the page is there."""
        self._looks += 1
        if (self._looks == 1 and self._manifest_ranks() > QUICKLY) or time.monotonic() < self._goodput_due:
            return
        began = time.thread_time()
        self._history.refresh()
        self._goodput = goodput(self.folder, self._history)
        took = time.thread_time() - began
        self._explained_s += took
        self._goodput_due = time.monotonic() + (max(LEAST_REST_S, RESTS * took) if is_live else float("inf"))

    def _read_boxes(self, attempts: list[AttemptSaid], is_live: bool) -> list[RankBox]:
        """Those of the last attempt; earlier ones are read once."""
        for said in attempts[-MOST_ATTEMPTS:]:
            if said.number not in self._boxes or (said is attempts[-1] and is_live):
                self._boxes[said.number] = read_boxes(self.attempt_folder(said.number), whole=not is_live)
        return self._boxes[attempts[-1].number] if attempts else []

    def _report(self, said: AttemptSaid, goes_on: bool) -> None:
        """The report that the supervisor wrote on an attempt that is over."""
        if (goes_on and said.ended is None) or said.number in self._reports:
            return
        path = self.attempt_folder(said.number) / "report.json"
        with open_regular(path, follow=False) as stream:
            found = foreign_json.loads(stream.read(LARGEST_REPORT))
        if isinstance(found, dict) and found.get("schema") == SCHEMA:
            self._reports[said.number] = found

    def _explain(self, said: AttemptSaid, is_live: bool, stopped: frozenset[int]) -> None:
        """By the same pipe as `keepstep why`: an attempt that goes on, or whose supervisor was killed.

        At its end at once, and again while what it left may still be written. Sooner if other ranks have ``stopped``.
        """
        known = (self._live_of, self._explained_live) == (said.number, is_live)
        due = self._due if stopped == self._explained_stopped else self._soon
        if known and (self._is_settled or time.monotonic() < due):
            return
        from keepstep.analyze.why import explain_paths

        began = time.thread_time()
        with _explaining:
            report = explain_paths([self.attempt_folder(said.number)], own_links=is_live, kernel_log=not is_live).report
        self._live, self._live_of, self._explained_live = report_to_dict(redacted(report)), said.number, is_live
        self._is_settled = self._over is not None and self._now - self._over > SETTLES_S
        self._explained_s = time.thread_time() - began
        self._explained_stopped = stopped
        self._soon = time.monotonic() + max(LEAST_REST_S, RESTS_IF_STOPPED * self._explained_s)
        self._due = time.monotonic() + max(LEAST_REST_S, RESTS * self._explained_s)

    def _stopped(self, boxes: list[RankBox]) -> frozenset[int]:
        """The ranks that should step and do not, or that are gone."""
        gone = {each.rank for each in boxes if not each.alive and not each.ended_well}
        return frozenset(gone | {each.rank for each in boxes if each.alive and self._is_stuck(each)})

    def _is_stuck(self, box: RankBox) -> bool:
        return box.did is not None and box.did.phase in STEPS and self._now - box.progress > box.stuck_after_s()

    def _costs(self, boxes: list[RankBox], manifest: RunManifest) -> str:
        """What is lost now: everything while nobody steps, else what the others wait for a late rank."""
        should = [each for each in boxes if each.did is not None and each.did.phase in STEPS]
        if should and all(map(self._is_stuck, should)):
            return per_hour(manifest.ranks, 1.0)
        records = {each.rank: each.box.records for each in boxes[:MOST_COMPARED]}
        one_host = len({each.host for each in boxes}) == 1
        late = late_ranks(records) if one_host else late_by_durations(records)
        return per_hour(manifest.ranks, min(1.0, (late[0].seconds - late[0].others_s) / late[0].step_s)) if late else ""

    def _ranks(self, boxes: list[RankBox], blamed: set[int], at: float, is_live: bool) -> tuple[RankView, ...]:
        """By their boxes; by the history where those are not here, or older, as of another host."""
        self._blamed = tuple(sorted(blamed))
        self._history.refresh()
        newest = self._history.newest(RANK)
        latest = max((each.last for each in boxes), default=at)
        shown = {each.rank: each for each in ranks_in(newest, blamed, at, is_live)}
        for box in boxes:
            known = newest.get(box.rank)
            if known is None or not box.sent or known.at < box.last:
                one = _rank(box, blamed, at, latest, is_live)
                shown[box.rank] = with_readings(one, known) if known is not None else one
        found = list(shown.values())
        bad = {"gone": 0, "silent": 1}
        busy = _busy(found)
        found.sort(key=lambda r: (not r.blamed, bad.get(r.state, 2), r.rank not in busy, r.steps, r.rank))
        return tuple(found)

    def _newest_links(self, attempts: list[AttemptSaid]) -> LinksView | None:
        """Of the last attempt after which the links were measured: attempts that are over do not change."""
        for said in reversed(attempts[-MOST_ATTEMPTS:]):
            if said.ended is not None and said.number not in self._links:
                self._links[said.number] = links_in(self.attempt_folder(said.number), said.number)
            if (found := self._links.get(said.number)) is not None:
                return found
        return None

    def _left_s(self, at: float) -> float | None:
        """By the rank that says the most, as of now."""
        said = [each.values["left_s"] for each in self._history.newest(RANK).values() if "left_s" in each.values]
        return max((max(0.0, left - (at - then)) for left, then in said if at - then < OLD_S), default=None)

    def _manifest_ranks(self) -> int:
        return self._manifest.ranks if self._manifest is not None else 0


def _rank(each: RankBox, blamed: set[int], at: float, latest: float, is_live: bool) -> RankView:
    did = each.did
    quiet = max(0.0, (at if is_live and each.alive else each.last) - each.progress)
    should = did is not None and did.phase in STEPS
    if is_live and not each.alive:
        state = "ended" if each.ended_well else "gone"
    elif not is_live and not each.ended_well and latest - each.last > 1.0:
        state = "gone"
    elif should and quiet > each.stuck_after_s():
        state = "silent"
    else:
        state = "alive" if is_live else "ended"
    waits = [share for _, _, share in each.waits()][-5:]
    return RankView(
        rank=each.rank,
        host=each.host,
        state=state,
        phase=did.phase.words if did is not None else WORDS[Cell.UNKNOWN],
        steps=did.steps if did is not None else 0,
        step_s=did.usual_ns / 1e9 if did is not None and did.usual_ns else None,
        wait=sum(waits) / len(waits) if waits else None,
        memory_bytes=None,
        age_s=max(0.0, at - each.last),
        quiet_s=quiet,
        blamed=each.rank in blamed,
    )


def _lost(found: Goodput) -> tuple[tuple[str, float, str], ...]:
    parts = sorted(found.lost.items(), key=lambda item: -item[1])
    return tuple(
        (bucket.words, seconds, redact(why)) for (bucket, why), seconds in parts[:MOST_LOST] if seconds >= 0.05
    )


def _busy(ranks: Sequence[RankView]) -> set[int]:
    """Ranks that do not wait while most others do: those are waited for."""
    usual = median([each.wait for each in ranks if each.wait is not None] or [0.0])
    return {each.rank for each in ranks if each.wait is not None and usual > WAITS_MUCH and each.wait < usual / 3}


def _since_they_stopped(problem: Problem, ranks: Sequence[RankView], at: float) -> Problem:
    """A hang is as old as the silence of its ranks, not as the look that showed it."""
    silent = [at - each.quiet_s for each in ranks if each.rank in problem.ranks and each.state == "silent"]
    return replace(problem, since=min([*silent, problem.since or at])) if silent else problem


def _attempt(said: AttemptSaid) -> AttemptView:
    return AttemptView(
        number=said.number,
        began=said.began,
        ended=said.ended,
        status=said.status,
        title=redact(said.title or ""),
        cause=said.cause or "",
        decided=redact(said.decision or ""),
        steps=said.steps,
        step_s=said.step_s,
    )


def _end(manifest: RunManifest, boxes: list[RankBox]) -> float:
    """When it ended, or was last heard of."""
    known = [at for each in manifest.attempts for at in (each.began, each.ended) if at is not None]
    last = max([manifest.began, *known, *(each.last for each in boxes)])
    return manifest.ended if manifest.ended is not None else last
