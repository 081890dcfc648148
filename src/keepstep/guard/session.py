# SPDX-License-Identifier: Apache-2.0
"""The guard of one process: what adapters call, what it writes down, and how it does no harm.

A failure in here turns off the part that failed, which is reported once; the training never notices. The only
exception that gets out is OutOfStep, raised by :meth:`Peers.agree` where going on would certainly hang or spoil the
run.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from keepstep.base.exit_file import exit_file
from keepstep.errors import OutOfStep
from keepstep.guard import box_writer as boxes
from keepstep.guard import mode, own_rank
from keepstep.guard.agree import run_folder
from keepstep.guard.agree.fingerprints import Fingerprints
from keepstep.guard.agree.peer_messages import Peers
from keepstep.guard.batches.batch_contract import Batches
from keepstep.guard.batches.batch_hashes import FedAlike
from keepstep.guard.companion import WatchedByCompanion
from keepstep.guard.ending.goodbye import Ending, ExitStatus, Listener
from keepstep.guard.ending.last_reaper import Orphan
from keepstep.guard.ending.uncaught import LastWords
from keepstep.guard.exchange import Exchange, SharedFolder
from keepstep.guard.hook_cost import Thrift
from keepstep.guard.own_thread import Pulse
from keepstep.guard.record.checkpoint_ledger import CheckpointLedger
from keepstep.guard.record.lost_children import LostChildren
from keepstep.guard.record.named_pauses import Pauses
from keepstep.guard.record.notes import Notes
from keepstep.guard.record.own_pace import OwnPast
from keepstep.guard.record.processor_wait import Held
from keepstep.guard.record.profile import Profile
from keepstep.signals.blackbox import LEAN_STEP, BoxPhase, Record, RecordKind
from keepstep.signals.box_files import keep, linked_from

if TYPE_CHECKING:
    from keepstep.guard.protocols import Values, Waits

P = ParamSpec("P")
T = TypeVar("T")

_STEP, _PHASE, _GOODBYE = int(RecordKind.STEP), int(RecordKind.PHASE), int(RecordKind.GOODBYE)
_START, _COMPUTE, _END = int(BoxPhase.START), int(BoxPhase.COMPUTE), int(BoxPhase.END)
_STEPPING = (int(BoxPhase.INPUT), _COMPUTE)
_now = time.monotonic_ns
BUDDIES = "buddy steps"
MOST_EARLY = 100
LINE_LIMIT, LONGEST_LINE = 40, 400
"""The most lines that the guard prints into a program's output, and what is kept of one."""


class Session(Peers):
    """``write(kind, value, extra)`` records into the black box: a plain function, a no-op where there is none."""

    __slots__ = (
        "_opened", "_pausing", "at_step", "by_hand", "every", "in_full", "lean", "off", "phase_now", "spent_ns",
        "step_ended", "steps", "trainer", "write",
    )  # fmt: skip
    """What every step touches, side by side: after a step has emptied the caches, every cache line counts."""

    def __init__(self, who: own_rank.Identity, env: Mapping[str, str] = os.environ) -> None:
        super().__init__(who)
        self._env = env
        self._link: Path | None = None
        self._is_over, self._over_at = False, -1
        """Whether the script is over, and its steps when that was last asked."""
        self._notes: Notes | None = None
        self._early: deque[tuple[str, dict[str, Any], str]] = deque(maxlen=MOST_EARLY)
        """Notes of what happens before the first sign of a training: hooks are placed then, and checkpoints loaded."""
        self._exit_status: ExitStatus | None = None
        self._watched: WatchedByCompanion | None = None
        self._meeting: run_folder.CommonFolder | None = None
        self.framework: str | None = None
        self.data_parallel: list[Callable[[], bool]] = []
        """For each framework: whether all ranks average their gradients, so each should be fed data of its own."""
        self.fed_alike = FedAlike(self)
        self.strict = mode.mode(env) == mode.STRICT
        self.silenced = mode.mode(env) == mode.OFF
        self.supervised = "KEEPSTEP_SUPERVISOR" in env
        self.write: boxes.Write = boxes.nothing
        self.steps = 0
        self.trainer = 0
        """The thread that takes the steps, by its number in the kernel..."""
        self.trains_in_thread = 0
        """... and in Python."""
        self.folder: Path | None = None
        self.phase_now: int = _START
        self.pulse: Pulse = Pulse(self)
        self.batches = Batches(self)
        self.values: Values | None = None
        """How to look into the framework's tensors on the host; set by its adapter."""
        self.by_hand = False
        """The script reports its steps itself (`guard.steps`), so the hooks do not."""
        self._box: boxes.Box | None = None
        self._listener = Listener(self._leave_at_once)
        self._pausing = False
        self.step_ended = 0
        self.at_step: list[Callable[[], None]] = []
        """What was asked for at the end of each step (``keepstep.on_preemption``, `keepstep profile`)."""
        self.every = 1
        """One step in this many is recorded in full..."""
        self.lean = False
        """... and the current one is not."""
        self.in_full, self.spent_ns = 0, 0
        """Steps recorded in full, and the time spent in hooks during them."""
        self.at_catching_up: list[Callable[[], None]] = []
        """What an adapter writes down about a lean step that takes long."""
        self._plans: dict[str, int] = {}
        self.off: set[str] = set()
        """Parts that failed, or could not be hooked."""
        self.at_close: list[Callable[[], None]] = []
        """What an adapter does when the process ends, before the interpreter does."""
        self.at_leaving: list[Callable[[], None]] = []
        """What this rank tells the others before it can talk to them no more."""
        self.is_to_stop = False
        """The script has been told to stop (`keepstep.should_stop`)."""
        self.ledger = CheckpointLedger(self, env)
        self.fingerprints = Fingerprints(self, env)
        asked = env.get("KEEPSTEP_BUDDY", "").strip()
        self.buddy_every = int(asked) if asked.isdecimal() else 0
        self._no_number = "" if asked.isdecimal() or asked.lower() in ("", "off", "no", "false") else asked[:20]
        """In one step of so many, another rank computes what one rank has computed; 0: never."""
        self.at_buddy: list[Callable[[], None]] = []
        """What an adapter does when the script asks for that later."""
        self.waiting: Waits | None = None
        """While the framework forms a world."""
        self._lines = 0
        self._opened = False
        self._hears_term = False
        self._pid = os.getpid()

    # --- the life of the guard

    def open(self) -> None:
        """Make the black box and start. Called by the first sign of a training; later calls do nothing."""
        if self._opened or self.silenced:
            return
        with self._lock:
            if self._opened:
                return
            self._opened = True
            self._pid = os.getpid()  # a forked rank (a notebook's launcher) opens its own
            with self.part("black box"):
                self._open_files()
            if self.supervised and self._env.get("KEEPSTEP_EXCHANGE"):
                with self.part("shared folder"):
                    self.use_exchange(SharedFolder(Path(self._env["KEEPSTEP_EXCHANGE"])))
            self.write(_PHASE, self.phase_now, 0)
            os.register_at_fork(after_in_child=self._in_child)
            atexit.register(self.close)
            with self.part("goodbye"):
                self._listener.listen()
                if self._link is not None:
                    self._exit_status = ExitStatus(exit_file(self._link))
            self.pulse.every(1.0, "black box", self._tell_anew)
            self.pulse.every(0.5, "black box", self._see_the_end)
            with self.part("companion"):
                if self.folder is not None and self._box is not None and self._env.get("KEEPSTEP_COMPANION") != "off":
                    self._watched = WatchedByCompanion(self.folder, self._env)
                    self.pulse.every(1.0, "companion", self._watched)
            last_words = LastWords(self)
            with self.part(last_words.part):
                last_words.listen()
            tasks = (Held(self), Pauses(self), OwnPast(self), Orphan(self._env), LostChildren(self))
            # a trial of `shrink` must see in each run what it saw in the first
            thrift = () if self._env.get("KEEPSTEP_TRIAL") else (Thrift(self),)
            for task in (*tasks, *thrift, last_words, Profile(self)):
                self.pulse.every(task.period_s, task.part, task)
            with self.part("own thread"):  # there may be no room for one, or Python is ending
                self.pulse.start()

    def _open_files(self) -> None:
        self.folder = run_folder.claim(self.who, self._env)
        name = run_folder.file_name(self.who)
        self._notes = Notes(self.folder / f"{name}.notes.jsonl")
        while self._early:
            self.note(*self._early.popleft())
        self._link = self.folder / f"{name}.box"
        who = {**own_rank.of_process(self.who), **linked_from(self._link)}
        self._hears_term = bool(who["hears_term"])
        memory = boxes.in_memory(f"{os.getpid()}-{time.time_ns()}.box")
        if memory is not None:
            with contextlib.suppress(OSError):
                self._box = boxes.Box(memory, who)
                self._link.symlink_to(memory)
        if self._box is None:
            self._box = boxes.Box(self._link, who)
        self.folder.joinpath(f".{name}.box").unlink(missing_ok=True)
        self.write = self._box.write

    def file(self, name: str) -> int:
        """A number for a file of the script. It is in the box at once: a native library may crash any moment."""
        self.who.files.append(name)
        self.tell_who()
        return len(self.who.files)

    def _tell_anew(self) -> None:
        """A script may start to handle SIGTERM later on."""
        if own_rank.hears_term() != self._hears_term:
            self.tell_who()

    def _see_the_end(self) -> None:
        """The script is over once its main thread is: Python then waits for other threads, which is no step."""
        if threading.main_thread().is_alive():
            return
        before, self._over_at = self._over_at, self.steps
        if before == self.steps and not self._is_over:
            self._is_over = True
            self.write(_PHASE, _END, self.steps)
        elif before != self.steps and self._is_over:  # it trains in another thread
            self._is_over = False
            self.write(_PHASE, self.phase_now, self.steps)

    def tell_who(self) -> None:
        """Write into the box what this process is known to be by now."""
        if self._box is None:
            return
        who = {**own_rank.of_process(self.who), **(linked_from(self._link) if self._link is not None else {})}
        with self._lock:
            self._hears_term = bool(who["hears_term"])
            self._box.tell({**who, "framework": self.framework} if self.framework else who)

    def close(self) -> None:
        """The process ends: write the last notes, and put the box where it will be looked for. Never raises."""
        if os.getpid() != self._pid or not self._opened:
            return
        self._say_goodbye(self._listener.ending())
        self.pulse.stop()
        with contextlib.suppress(Exception):
            self._settle()
        with contextlib.suppress(Exception):
            if self._gathering is not None:
                self._gathering.turn()
        for leave in self.at_close:
            with contextlib.suppress(Exception):
                leave()
        with contextlib.suppress(Exception):
            self.batches.at_end()
        self._keep()

    def leave(self) -> None:
        """The framework's world ends, and what goes through its service."""
        for tell in self.at_leaving:
            with contextlib.suppress(Exception):
                tell()

    def exits(self, given: Any, place: str, interrupted: bool) -> None:
        """A SystemExit reached the top of a program that has not trained yet: say at least that."""
        if not self._opened:
            self.open()
            self._listener.hear(given, place, interrupted)

    def _leave_at_once(self, ending: Ending) -> None:
        """The process ends without its exit handlers (``os._exit``): write what can be written without a wait, and what
        the last save's record still needs."""
        if os.getpid() == self._pid and self._opened:
            with contextlib.suppress(Exception):
                self.ledger.close()
            self._say_goodbye(ending)
            self._keep()

    def _say_goodbye(self, ending: Ending) -> None:
        self.write(_GOODBYE, ending.status, self.steps)
        self.write(_PHASE, _END, self.steps)
        fields = {
            "goodbye": True,
            "status": ending.status,
            "raised": ending.raised,
            "place": ending.place if ending.status else None,
            "words": ending.text,
            "steps": self.steps,
            "pid": self._pid,
        }
        fields |= {
            "phase": BoxPhase(self.phase_now).name.lower(),
            "killed_as": own_rank.killed_as(self.who),
            "world": self.who.world,
        }
        with contextlib.suppress(Exception):
            self.note("RankEnded", fields, f"{ending.words} after {self.steps} steps")

    def _keep(self) -> None:
        with contextlib.suppress(Exception):
            self.flush()
        with contextlib.suppress(Exception):
            if self._link is not None:
                keep(self._link)

    def _in_child(self) -> None:
        """A forked child (a loader's worker) is not the rank: it must leave the rank's box alone."""
        self.write = boxes.nothing
        if self._exit_status is not None:
            self._exit_status.forget()
        self._notes = self._contracts = self._exchange = self._gathering = None
        self._opened = True
        self.folder = None

    # --- the world that the framework forms, and the one that the launcher means

    def world_formed(self, size: int, index: int | None, framework: str) -> None:
        """The framework formed a world: from now on this rank is who the framework says."""
        self.framework = framework
        if index is not None and (self.who.rank is None or size > 1):
            self.who.rank = index
        if size > 1:
            self.who.world = size
        self.open()
        with self.part("black box"):
            self.tell_who()
        self._tell_world(size, index, at_step=False)

    def trains_in(self, size: int, framework: str) -> None:
        """The first step runs, in a world of ``size``: a rank that trains alone is reported now."""
        self.framework = framework
        self.answer_buddies(framework)
        self._tell_world(size, None, at_step=True)
        meant = own_rank.of_environment(self._env)
        if size == 1 and (meant.world or 1) > 1:
            formed = f"{meant.said_by} means a world of {meant.world} ranks, but {framework} formed none"
            self.say(f"trains alone: {formed}; every rank trains its own model")

    def answer_buddies(self, framework: str) -> None:
        """A training begins: were buddy steps asked for that cannot be?"""
        if self.buddy_every and framework != "torch":
            self.no_buddies_in(framework)
        elif self._no_number and BUDDIES not in self.off:
            self.uncovered(BUDDIES, f"KEEPSTEP_BUDDY={self._no_number} is no number of steps")
            self.say(f"no buddy steps: KEEPSTEP_BUDDY={self._no_number} is no number of steps")

    def no_buddies_in(self, framework: str) -> None:
        """They were asked for, and cannot be."""
        if BUDDIES not in self.off:
            self.uncovered(BUDDIES, f"{framework} has none: its gradients live inside a compiled step")
            self.say(f"no buddy steps: {framework} has none, only PyTorch's DistributedDataParallel")

    def _tell_world(self, size: int, index: int | None, *, at_step: bool) -> None:
        meant = own_rank.of_environment(self._env)
        fields = {"size": size, "index": index, "meant": meant.world, "meant_by": meant.said_by}
        fields |= {"framework": self.framework, "at_step": at_step}
        when = "trains in" if at_step else "formed"
        self.note(
            "WorldFormed",
            fields,
            f"{self.framework} {when} a world of {size}; the launcher means {meant.world or 'none'}",
        )

    # --- the folder that all ranks of the run share, once they have met

    def use_exchange(self, exchange: Exchange) -> None:
        known = self.exchange
        super().use_exchange(exchange)
        if self.exchange is known or self.supervised or self.folder is None:
            return
        with self.part("common folder"):
            self._meeting = run_folder.CommonFolder(
                exchange, self.who, self.folder, moves="KEEPSTEP_DIR" not in self._env
            )
            if self.who.rank == 0:
                self._meeting.tell()
            self.pulse.every(0.2, "common folder", self._settle)

    def _settle(self) -> None:
        """Once rank 0 has said where all ranks write: write there, and be known as a rank of this run."""
        meeting = self._meeting
        if meeting is None or self._link is None or self._notes is None:
            return
        folder = meeting.where() if self.who.rank != 0 else self.folder
        if folder is None:
            return
        self._meeting = None
        self.who.run = meeting.run
        self._move_to(folder)
        self.tell_who()

    def _move_to(self, folder: Path) -> None:
        assert self._link is not None and self._notes is not None and self.folder is not None
        name, before = run_folder.file_name(self.who), self.folder
        link, notes = folder / f"{name}.box", folder / f"{name}.notes.jsonl"
        if link == self._link:
            return
        run_folder.move(self._notes.path, notes)
        run_folder.move(self._link, link)
        if self._exit_status is not None and self._exit_status.path.exists():
            run_folder.move(self._exit_status.path, exit_file(link))
            self._exit_status.path = exit_file(link)
        self._notes.path, self._link, self.folder = notes, link, folder
        if before != folder:
            if self._watched is not None:
                self._watched.moved(folder)
            run_folder.leave(before)

    # --- parts that may fail

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A failure inside turns this part off, is reported once, and goes no further."""
        try:
            yield
        except OutOfStep:
            raise
        except Exception as error:
            self.failed(name, error)

    def guarded(self, name: str, function: Callable[P, T]) -> Callable[P, T | None]:
        """``function`` as a harmless hook: it never raises, and is not called again once it has failed."""

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
            if name in self.off:
                return None
            try:
                return function(*args, **kwargs)
            except OutOfStep:
                raise
            except Exception as error:
                self.failed(name, error)
                return None

        return call

    def is_off(self, name: str) -> bool:
        return name in self.off

    def failed(self, name: str, error: BaseException | str) -> None:
        """A part failed: it is off from now on."""
        if name in self.off:
            return
        self.off.add(name)
        try:
            why = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        except Exception:  # an error of the program's own kind, without words
            why = type(error).__name__
        self.note("GuardPart", {"part": name, "why": why[:300]}, f"the guard's {name} is off: {why[:200]}")
        self._print(f"the guard's {name} is off ({why[:200]}); the training is not affected")

    def uncovered(self, part: str, why: str) -> None:
        """Something could not be hooked: noted once, as coverage."""
        if part not in self.off:
            self.off.add(part)
            self.note(
                "GuardPart", {"part": part, "why": why[:300], "off": False}, f"{part} is not watched: {why[:200]}"
            )

    # --- what happens, step by step (hot: a microsecond each)

    def phase(self, phase: int) -> int:
        """Enter a phase; returns the one before, to be entered again afterwards."""
        before = self.phase_now
        if phase != before:
            self.phase_now = phase
            if self.lean:
                if phase in _STEPPING and before in _STEPPING:
                    return before
                self.lean = False
            self.write(_PHASE, phase, self.steps)
        return before

    def catch_up(self) -> None:
        """From the guard's thread: a lean step takes long, so write down now what was left out."""
        self.lean = False
        self.write(_PHASE, self.phase_now, self.steps)
        for tell in self.at_catching_up:
            tell()

    def pause(self, phase: int) -> None:
        """Enter a phase from outside the training's thread; its next step leaves it, if nothing did before."""
        self._pausing = True
        self.phase(phase)

    @contextlib.contextmanager
    def during(self, phase: int) -> Iterator[None]:
        before = self.phase(phase)
        try:
            yield
        finally:
            self.phase(before)

    def step_done(self, by_hand: bool = False) -> None:
        """A training step has ended (or was handed to the device)."""
        if self.by_hand and not by_hand:
            return
        if self.lean:
            now = _now()
            self.steps += 1
            self.write(LEAN_STEP, self.steps, now - self.step_ended)
        else:
            if not self._opened:
                self.open()
            if not self.trainer:
                self.trainer, self.trains_in_thread = threading.get_native_id(), threading.get_ident()
            if self._pausing:
                self._pausing = False
                self.phase(_COMPUTE)
            now = _now()
            self.steps += 1
            self.in_full += 1
            self.write(_STEP, self.steps, now - self.step_ended if self.step_ended else 0)
        self.step_ended = now
        self.lean = self.steps % self.every != 0
        if self.at_step:
            for call in tuple(self.at_step):
                with self.part("what is done after a step"):
                    call()

    def see_batch(self, batch: Any) -> None:
        """A batch is about to be trained on. Raises OutOfStep only in strict mode."""
        if self.lean or "batch checks" in self.off:
            return
        try:
            self.batches.see(batch, self.values)
        except OutOfStep:
            raise
        except Exception as error:
            self.failed("batch checks", error)

    def recent(self, most: int) -> tuple[Record, ...]:
        """The last records of this rank, oldest first."""
        return self._box.recent(most) if self._box is not None else ()

    @property
    def usual_step_s(self) -> float | None:
        """The median time of the last steps, once there are a few."""
        taken = sorted(record.extra for record in self.recent(400) if record.kind == _STEP and record.extra)
        return taken[len(taken) // 2] / 1e9 if len(taken) >= 3 else None

    def plan(self, name: str) -> int:
        """A number for a plan (a traced function, a compiled program), noted once."""
        number = self._plans.get(name)
        if number is None:
            number = self._plans[name] = len(self._plans) + 1
            self.note("PlanNamed", {"number": number, "name": name[:300]}, f"plan {number} is {name[:200]}")
        return number

    # --- what was learned (cold)

    def note(self, fact: str, fields: dict[str, Any], quote: str) -> None:
        """Write a fact down, by the name of its class in `model/facts`, for `keepstep why` and the supervisor."""
        if self._notes is not None:
            line = self._notes.add(fact, fields, rank=self.who.rank, quote=quote)
            if self._gathering is not None:
                self._gathering.offer(line)
        elif not self._opened:
            self._early.append((fact, fields, quote))

    @property
    def notes_path(self) -> Path | None:
        return self._notes.path if self._notes is not None else None

    def flush(self) -> None:
        if self._notes is not None:
            self._notes.flush()

    def say(self, text: str, *, always: bool = False) -> None:
        """One line on standard error, rarely. The report has it too. ``always``: also after many others."""
        if self._lines < LINE_LIMIT or always:
            self.note("SaidLive", {"words": text[:LONGEST_LINE]}, text)
        self._print(text, always=always)

    def _print(self, text: str, *, always: bool = False) -> None:
        self._lines += 1
        if self._lines > LINE_LIMIT and not always:
            return
        with contextlib.suppress(Exception):
            from keepstep.base.own_line import say_on_own_line
            from keepstep.base.visible import visible

            say_on_own_line(f"keepstep: {self.who.prefix}{visible(text)}")
