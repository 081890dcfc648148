# SPDX-License-Identifier: Apache-2.0
"""The companion of a run without a supervisor. The guard starts it, as a module, with the run's FOLDER.

One per host and folder. It watches the black boxes of this host's ranks from outside. When they stop, it looks at their
stacks, says in a few lines who holds up whom, and writes the evidence beside the boxes for `keepstep why`. It only
reports. When all ranks are gone, it replaces the links to boxes of dead ranks by copies, and ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base.own_line import say_on_own_line
from keepstep.base.proc_stat import ProcStat, read_stat
from keepstep.base.visible import visible
from keepstep.guard.agree import run_folder
from keepstep.guard.companion import pid_file
from keepstep.signals.blackbox import BoxPhase, RecordKind
from keepstep.signals.box_files import keep
from keepstep.store import boxes_in_memory
from keepstep.supervise.start.process_exit import Doors
from keepstep.supervise.watch.foreign_ranks import how_ended
from keepstep.supervise.watch.hang_detector import Sign, Stop, Suspicion, Watch
from keepstep.supervise.watch.preload import prepare
from keepstep.supervise.watch.vitals import (
    Boxes,
    OpenBox,
    Seer,
    crowding,
    is_same,
    only_serve,
    recent_of,
    said_goodbye,
    sign_of,
)

if TYPE_CHECKING:
    from keepstep.supervise.watch.alarms import Alarms
    from keepstep.supervise.watch.history_recorder import HistoryRecorder

TICK_S = 0.5
NOBODY_YET_S = 120.0
GONE_S = 0.05
PREPARED_S, READY = 10.0, 2
"""It gets ready for looks when the run has lasted this long, with this many children."""
LATE_EVERY_S = 10.0
OWN_CODE_S = 90.0
"""How long ranks may be silent if none waits for another: after the last step there are reports to write."""
REPORTER = "the companion"
MOST_LINES = 30


class Companion:
    """All that one companion does; ``tick`` is called until it returns False."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = f"host-{_host()}.stacks.jsonl"
        self.exits = f"host-{_host()}.exits.jsonl"
        self._boxes = Boxes(folder)
        self._seer = Seer()
        self._history: HistoryRecorder | None = None
        self._alarms: Alarms | None = None
        self._watch = Watch()
        self._began = self._alive_at = time.monotonic()
        self._ever = False
        self._lines = 0
        self._told: Stop | None = None
        self._prepared = False
        self._doors = Doors()
        self._living: list[OpenBox] = []
        self._noted: set[int] = set()
        self._first_known = True
        """No rank has failed so far: the next failure is the first."""
        self._late_due = self._began + LATE_EVERY_S
        self._late_before: set[tuple[int, str]] = set()
        self._late_told: set[tuple[int, str]] = set()

    def tick(self) -> bool:
        """One look. False when it is over."""
        at = time.monotonic()
        living, signs = self._see(at)
        self._living = living
        if living:
            self._ever, self._alive_at = True, at
        elif at - self._alive_at > (GONE_S if self._ever else NOBODY_YET_S):
            return False
        if not self._prepared and at - self._began > PREPARED_S and self._ever:
            self._prepared = True
            threading.Thread(target=prepare, args=(READY,), daemon=True).start()
        self._watch.crowding = crowding()
        suspicion = self._watch.see(signs, at)
        if suspicion is not None:
            self._look(suspicion)
        elif self._told is not None and self._watch.stopped is None and not self._someone_leaves():
            self._heal()
        if at >= self._late_due and not self._watch.stopped:
            self._late_due = at + LATE_EVERY_S
            self._tell_late(living)
        return True

    def _see(self, at: float) -> tuple[list[OpenBox], list[Sign]]:
        """The boxes of living ranks, and what they show."""
        self._boxes.refresh()
        doings = {box.pid: box.doing() for box in self._boxes.open.values()}
        listed = self._seer.processes(doings, at)
        living = [box for box in self._boxes.open.values() if is_same(box, listed.get(box.pid))]
        shown = [] if only_serve(living) else living
        signs = [sign_of(box.pid, box.rank, doings[box.pid], listed, at=at) for box in shown]
        if any(sign.steps for sign in signs):  # before, ranks may still move to another folder
            self._record(signs, living, listed)
        return living, signs

    def _record(self, signs: list[Sign], living: list[OpenBox], listed: dict[int, ProcStat]) -> None:
        if self._history is None:
            from keepstep.supervise.watch.history_recorder import HistoryRecorder  # loads much

            self._history = HistoryRecorder(self.folder, (self.folder,))
        if self._history.tick(signs, living, listed):
            now, progress = time.monotonic(), [sign.progress for sign in signs if sign.progress is not None]
            paused = all(sign.phase is BoxPhase.RETRY for sign in signs)
            quiet_s = now - max(progress) if progress and not paused else None
            self._alarms_of_run().see(self._history.newest, now, self.folder, quiet_s)

    def _alarms_of_run(self) -> Alarms:
        if self._alarms is None:
            self._alarms = _alarms(self._say)
        return self._alarms

    def wait(self) -> None:
        """Until the next look, or the end of a rank: a reader of the ranks' output must not have to wait for us."""
        pids = {box.pid for box in self._living}
        for pid in self._doors.known - pids:
            self._doors.drop(pid)
        for pid in pids - self._doors.known:
            self._doors.add(pid)
        self._doors.wait(TICK_S if pids or not self._ever else GONE_S)
        for box in self._living:
            entry = read_stat(box.pid)
            if entry is None or not is_same(box, entry):
                self._note_end(box)
        self._living = [box for box in self._living if box.pid not in self._noted]

    def _note_end(self, box: OpenBox) -> None:
        """How a rank ended, as long as its parent has not asked the kernel for it."""
        from keepstep.model.evidence import Evidence, Origin
        from keepstep.model.facts.process import ProcessExited
        from keepstep.model.identity import Rank
        from keepstep.store.evidence_file import append

        if box.pid in self._noted:
            return
        self._noted.add(box.pid)
        exit_ = how_ended(box.pid, int(box.who.get("started") or 0), box.path)
        if exit_.code is None and exit_.signal is None:
            self._first_known = self._first_known and said_goodbye(box)
            return
        first = not exit_.well and self._first_known
        self._first_known = self._first_known and exit_.well
        fact = ProcessExited(reporter=REPORTER, code=exit_.code, signal=exit_.signal, pid=box.pid, first=first)
        rank = Rank(index=box.rank) if box.rank is not None else None
        quote = f"{_name(box)} ended with {exit_.words}"
        evidence = Evidence(fact=fact, origin=Origin(source=self.exits), rank=rank, at=exit_.at, quote=quote)
        with contextlib.suppress(OSError):
            append(self.folder / self.exits, [evidence])

    def _look(self, suspicion: Suspicion) -> None:
        from concurrent.futures import ThreadPoolExecutor

        from keepstep.supervise.watch.rank_stacks import as_evidence, look  # expensive: only when something looks wrong

        # in a thread of its own, which gets priority; this one stays as it is
        with ThreadPoolExecutor(max_workers=1) as pool:
            looked = pool.submit(look, suspicion.signs).result()
        at = time.monotonic()
        still = looked.still_in(suspicion.kind)
        if still is not True and (self._someone_left_well() or suspicion.quiet_s < OWN_CODE_S):
            self._watch.looked(suspicion, still=False, at=at)
            return  # no rank waits for another: the loop may be over, and it may do something else
        stop = self._watch.looked(suspicion, still=still, sure=looked.sure, at=at, signs=self._see(at)[1])
        if stop is None:
            return
        with contextlib.suppress(OSError):
            (self.folder / self.source).unlink(missing_ok=True)
            self._write([*as_evidence(stop, self.source, looked.report), *looked.seen.items])
        if self._told is None or (stop.proven and not self._told.proven):
            self._say_stop(stop, looked.report)
        self._told = stop

    def _someone_leaves(self) -> bool:
        """Whether a rank is exiting: one that was stuck and gets Ctrl-C moves, but does not continue."""
        doings = [box.doing() for box in self._boxes.open.values()]
        return any(doing is not None and doing.phase is BoxPhase.END for doing in doings)

    def _someone_left_well(self) -> bool:
        """Whether a rank has exited with status 0: the training is over, and the others clean up."""
        return any(
            record.kind == RecordKind.GOODBYE and record.value == 0
            for box in self._boxes.open.values()
            for record in box.recent(4)
        )

    def _say_stop(self, stop: Stop, report: object) -> None:
        from keepstep.base.redact import redacted
        from keepstep.model.report import Report

        assert isinstance(report, Report)
        root = redacted(report).root
        doubt = "" if stop.proven else " (it may still recover)"
        if root is not None and stop.suspicion.kind != "busy":
            self._say(f"{root.title}{doubt}")
            self._say(f"  because {root.because}")
            for fix in root.fixes[:1]:
                self._say(f"  do: {fix.do}" + (f": {fix.command}" if fix.command else ""))
            said = f"{root.title}{doubt}"
        else:
            said = f"{stop.words}{doubt}; look at {_names(stop.suspicion.held_up)}"
            self._say(said)
        self._alarms_of_run().notices.send("hang", said, self.folder)
        self._say(f"  more: keepstep why {shlex.quote(str(self.folder))}")

    def _heal(self) -> None:
        """The run continued after all: what was written would be wrong from now on."""
        with contextlib.suppress(OSError):
            (self.folder / self.source).unlink(missing_ok=True)
        self._say("the run continues")
        self._told = None

    def _tell_late(self, living: list[OpenBox]) -> None:
        """Report a rank that keeps the others waiting, once it has done so twice in a row."""
        from keepstep.signals.pace import late_ranks

        late = late_ranks(recent_of(living))
        now = {(each.rank, each.phase.name) for each in late}
        for each in late:
            key = (each.rank, each.phase.name)
            if key in self._late_before and key not in self._late_told:
                self._late_told.add(key)
                self._say(f"rank {each.rank} keeps the others waiting: it {each.words}")
        self._late_before = now

    def _write(self, evidence: list[object]) -> None:
        from keepstep.store.evidence_file import append

        append(self.folder / self.source, evidence)  # type: ignore[arg-type]

    def _say(self, text: str) -> None:
        self._lines += 1
        if self._lines <= MOST_LINES:
            with contextlib.suppress(OSError, ValueError):
                say_on_own_line(f"keepstep: {visible(text)}", others_draw=True)

    def finish(self) -> None:
        """All ranks are gone: the boxes that are only in memory are kept."""
        self._boxes.refresh(now=True)
        if self._history is not None:
            (self._history.close if self._boxes.open else self._history.discard)()
        for name in list(self._boxes.open):
            with contextlib.suppress(OSError):
                keep(self.folder / name)
        self._boxes.close()
        boxes_in_memory.sweep()
        if self._alarms is not None:
            how = "have ended" if self._first_known else "have ended; at least one of them failed"
            self._alarms.notices.send("ended", f"the ranks of {socket.gethostname()} {how}", self.folder)
            self._alarms.notices.close()


def _alarms(say: Callable[[str], None]) -> Alarms:
    """It warns, posts and calls; ranks are not its own to save or stop."""
    from keepstep.extend.run_settings import read_run_settings
    from keepstep.store.history.readings import READINGS
    from keepstep.supervise.watch.alarms import Alarms

    settings = read_run_settings(None, Path.cwd(), READINGS)
    for problem in settings.problems:
        say(problem)
    return Alarms(settings, say, saves=False)


def _name(box: OpenBox) -> str:
    return f"rank {box.rank} (pid {box.pid})" if box.rank is not None else f"pid {box.pid}"


def main() -> int:
    if os.fork():  # the program that started it waits for this process only, and gets no unknown child
        os._exit(0)
    folder = Path(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # it ends when the ranks have
    handle = int(sys.argv[2])  # locked by the rank that starts it, and kept open to the end
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    companion = Companion(folder)
    while companion.tick():
        companion.wait()
    companion.finish()
    with contextlib.suppress(OSError):
        pid_file(folder).unlink()
    run_folder.leave(folder)
    return 0


def _names(signs: tuple[Sign, ...]) -> str:
    return ", ".join(f"rank {sign.rank}" if sign.rank is not None else f"pid {sign.pid}" for sign in signs[:8])


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())[:80]


if __name__ == "__main__":
    sys.exit(main())
