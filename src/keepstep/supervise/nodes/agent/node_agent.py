# SPDX-License-Identifier: Apache-2.0
"""The agent of one node: starts, watches and ends that node's ranks when the leader says so, and sends what it sees."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from keepstep.base.safe_files import make_private, open_private
from keepstep.errors import UserError
from keepstep.sources.files.left_files import GAPS
from keepstep.sources.host.ports import free_ports
from keepstep.store import boxes_in_memory
from keepstep.store.pause_request import WANTED
from keepstep.store.reserved_space import Reserve
from keepstep.supervise.attempt import Attempt
from keepstep.supervise.attempt_context import Means, Outcome
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.agent_checks import Lookout, Post
from keepstep.supervise.nodes.agent.agent_folder import make_room
from keepstep.supervise.nodes.agent.heartbeat import LeaderContact, Vitals, now
from keepstep.supervise.nodes.agent.start_turns import turn
from keepstep.supervise.nodes.connection.interface import Connection
from keepstep.supervise.nodes.evidence.measuring import Measuring
from keepstep.supervise.nodes.evidence.parcels import Sender
from keepstep.supervise.nodes.evidence.relay import Relay
from keepstep.supervise.nodes.evidence.requests import Requests
from keepstep.supervise.nodes.lead.merged_state import known
from keepstep.supervise.nodes.messages import State
from keepstep.supervise.nodes.node_settings import NodePart
from keepstep.supervise.show.run_terminal import Terminal
from keepstep.supervise.start.ending import Reaper
from keepstep.supervise.start.interrupts import Interrupts
from keepstep.supervise.start.launch import Job, launches
from keepstep.supervise.start.layout import MORE_PORTS, Layout
from keepstep.supervise.start.process_exit import Exit
from keepstep.supervise.start.spares import SparePool
from keepstep.supervise.watch.guard_reports import forget_repeated

IDLE_S = 0.25
NEWS_EVERY_S = 10.0
SEND_S = 20.0
"""For the evidence of one attempt."""
MOST_BYTES, FIRST_BYTES = 64 << 20, 4 << 20
"""Of evidence of one attempt, at its end and while something is to be decided: redaction takes its time."""
RELAY_BUSY_S, RELAY_IDLE_S, RELAY_BARE_S, RELAY_S = 0.02, 0.2, 1.0, 2.0
LOST_STATUS = 1
ELECTED = -1
"""Not a status: this node leads the run from now on."""
FINAL = (Happened.EXITED, Happened.RAISED, Happened.ENDED_WELL)
"""After these there is nothing to watch: the leader decides."""


class AgentTerminal(Terminal):
    """It shows what its ranks print; what it has to say itself, the leader says for all."""

    send: Callable[[str], object] | None = None
    """Where words go; None: they are not needed."""

    def say(self, text: str) -> None:
        if self.send is not None:
            self.send(text)

    def aloud(self, text: str) -> None:
        """Here, because the leader cannot be reached, or because it is about this node alone."""
        super().say(text)

    def status(self, text: str) -> None:
        pass


class Agent:
    """``run`` until the leader says goodbye, or is gone for too long. Returns the run's status."""

    def __init__(
        self,
        part: NodePart,
        call: Callable[[], Connection],
        hello: Callable[[int, State], said.Hello],
        terminal: AgentTerminal,
        interrupts: Interrupts | None = None,
    ) -> None:
        self._part = part
        self._terminal = terminal
        self._interrupts = interrupts
        self._told_signal = False
        self._told_gaps = False
        self._room = make_room()
        self._reserve = Reserve(self._room)
        self._reaper = Reaper(secrets.token_hex(12))
        self._reaper.remove(str(self._room))
        self._pool = SparePool(start=self._reaper.start, say=terminal.say, on=part.spares and not part.job.as_given)
        for folder in self._pool.variables.values():
            self._reaper.remove(folder)
        self._running: _Running | None = None
        self._pauses: dict[str, float] = {}
        """What attempts on this node have learned about pauses."""
        self._newest = said.NEVER
        self.layout = Layout()
        """Of the newest attempt."""
        self._status: int | None = None
        self._signal: int | None = None
        self._hurry = False
        self._contact = LeaderContact(call, hello, self._reaper.lease, anew=part.give_up_s > 0)
        post = Post(host=part.host, env=part.env, job_in=part.job_in)
        self._lookout = Lookout(post, self._contact.send, ready=part.check)
        terminal.send = lambda text: self._contact.send(said.Said(text=text))

    def run(self) -> int:
        """All of it."""
        try:
            while self._status is None:
                self._look()
                for message in self._contact.messages():
                    self._take(message)
                self._see_to_the_lease()
                self._pass_signals_on()
            return self._status
        finally:
            self._close()

    @property
    def newest(self) -> int:
        """The newest attempt that this node took part in."""
        return self._newest

    # --- one round

    def _look(self) -> None:
        running = self._running
        if running is None or running.told_final:
            select.select([self._contact.handle], [], [], IDLE_S)
        elif (outcome := running.attempt.look()) is not None and not self._contact.is_over:
            running.outcome = outcome
            self._tell(running, outcome)
        if running is not None:
            self._contact.vitals = Vitals(
                state=State.RUNS, steps=running.attempt.steps or 0, quiet_s=running.attempt.quiet_s
            )
            for asked in running.requests.new():
                self._contact.send(asked)

    def _relay(self, running: _Running) -> None:
        """Beside the watch: guards wait for each other's answers before their first step."""
        busy = 0.0
        while True:
            idle = RELAY_IDLE_S if running.attempt.is_guarded else RELAY_BARE_S
            if running.over.wait(RELAY_BUSY_S if time.monotonic() - busy < RELAY_S else idle):
                return
            if keys := running.relay.new():
                busy = time.monotonic()
                self._contact.send(said.Put(attempt=running.number, keys=keys))

    def _send_news(self, running: _Running) -> None:
        """Beside the watch: what the ranks of this node show is seen at the leader while they run."""
        while not running.over.wait(NEWS_EVERY_S):
            until = time.monotonic() + SEND_S
            with contextlib.suppress(OSError), running.lock:
                if not all(self._contact.send_in_turn(parcel, until) for parcel in running.sender.so_far()):
                    running.sender.again()

    def _tell(self, running: _Running, outcome: Outcome) -> None:
        if outcome.happened is Happened.INTERRUPTED:
            return
        running.told = said.Happened(
            attempt=running.number,
            what=outcome.happened.value,
            rank=outcome.rank,
            exit=_gone(outcome.exit),
            quiet_s=outcome.stop.quiet_s if outcome.stop is not None else None,
            proven=outcome.stop is not None and outcome.stop.proven,
            given_up=outcome.given_up,
        )
        running.told_final = outcome.happened in FINAL
        self._contact.send(running.told)

    def _see_to_the_lease(self) -> None:
        contact = self._contact
        if self._running is not None and contact.is_over:
            self._terminal.aloud(
                f"no word from the leader ({contact.trouble or 'it does not answer'}): the ranks of this node are "
                "ended, because the run may go on without them"
            )
            if self._part.no_successor:
                self._terminal.aloud(self._part.no_successor)
            self._hurry = True
            self._end(self._running, Outcome(Happened.NODE_LOST))
        alone, office = contact.alone_since, self._part.office
        if self._running is not None or alone is None:
            return
        give_up_s = office.give_up_s if office is not None else self._part.give_up_s
        if office is not None and office.elected:
            self._status = ELECTED
        elif now() - alone > give_up_s or (office is not None and office.out):
            self._terminal.aloud(f"the leader could not be reached for {now() - alone:.0f} s: {contact.trouble}")
            self._status = LOST_STATUS

    def _pass_signals_on(self) -> None:
        """The leader decides for all nodes; a second signal, or no leader, and this node's ranks end at once."""
        signal_ = self._interrupts.signal if self._interrupts is not None else None
        if signal_ is None:
            return
        if not self._told_signal:
            self._told_signal = True
            what = Happened.INTERRUPTED.value
            if self._contact.send(said.Happened(attempt=self._newest, what=what, signal=signal_)):
                return
        assert self._interrupts is not None
        if self._interrupts.again or self._contact.alone_since is not None:
            self._signal, self._hurry = signal_, self._interrupts.again
            if self._running is not None:
                self._end(self._running, Outcome(Happened.INTERRUPTED))
            self._status = self._interrupts.status

    # --- what the leader says

    def _take(self, message: said.Message) -> None:
        running = self._running
        match message:
            case said.Welcome():
                self._say_again(running)
            case said.Refused(why=why):
                self._terminal.aloud(f"this node cannot take part: {why}")
                self._status = 2
            case said.Prepare(attempt=attempt, ranks=ranks):
                ports = tuple(free_ports(ranks + MORE_PORTS, first=message.ports))
                self._contact.send(said.Ready(attempt=attempt, ports=ports))
            case said.Look() | said.Probe():
                self._lookout.take(message)
            case said.Start():
                self._start(message)
            case said.Bye(status=status):
                self._contact.send(message)  # the leader stays until it knows that we know
                if running is not None:
                    self._end(running, Outcome(Happened.ENDED_WELL if status == 0 else Happened.STOPPED))
                self._status = status
            case _ if running is None or getattr(message, "attempt", None) != running.number:
                if isinstance(message, said.End) and message.attempt == self._newest:
                    self._contact.send(said.Ended(attempt=self._newest))
            case said.Collect():
                self._collect(running, message)
            case said.Hold(seconds=seconds):
                running.attempt.hold(seconds)
            case said.Put(keys=keys):
                running.relay.take(keys)
            case said.Asked():
                running.requests.take(message)
            case said.End(what=what, rank=rank, signal=signal_, hurry=hurry):
                self._signal, self._hurry = signal_, hurry
                self._end(running, replace(running.outcome or Outcome(Happened.STOPPED), happened=Happened(what)), rank)
            case _:
                pass

    def _say_again(self, running: _Running | None) -> None:
        """The connection is new: what mattered may have been lost with the old one."""
        if running is None:
            if self._newest != said.NEVER:
                self._contact.send(said.Ended(attempt=self._newest))
            return
        with running.lock:
            running.sender.again()
        running.relay.again()
        if running.told is not None:
            self._contact.send(running.told)

    def _start(self, start: said.Start) -> None:
        with turn():
            if self._contact.may_start(start):  # now, after the turn was waited for: the lease may be over
                self._start_now(start)
            else:
                self._contact.send(said.Ended(attempt=start.attempt))

    def _start_now(self, start: said.Start) -> None:
        number = start.attempt
        self._newest, self._signal, self._hurry, self.layout = number, None, False, start.layout
        try:
            self._running = self._prepared(start)
            self._running.attempt.begin()
            for beside in (self._relay, self._send_news):
                threading.Thread(target=beside, args=(self._running,), daemon=True).start()
        except (UserError, OSError) as error:
            why = f"{self._part.host}: {error}"
            told = said.Happened(attempt=number, what=Happened.EXITED.value, given_up=why)
            if self._running is None:
                self._contact.vitals = Vitals()
            else:
                self._running.told, self._running.told_final = told, True
            self._contact.send(told)

    def _prepared(self, start: said.Start) -> _Running:
        number, job = start.attempt, self._part.job_in(start.layout)
        folder, exchange = self._room / f"attempt-{number}", self._room / f"exchange-{number}"
        make_private(folder / "guard", exist_ok=False)
        make_private(exchange, exist_ok=False)
        started = launches(
            job,
            attempt=number,
            folder=folder,
            exchange=exchange,
            token=self._reaper.token,
            env=self._part.env,
            more={**dict(start.variables), **self._pool.variables, **self._own_variables(job)},
            limits=start.limits,
            layout=start.layout if start.layout.seats else None,
        )
        means = self._means(job, start)
        attempt = Attempt(number, folder, started, means)
        attempt.wake_for(self._contact.handle)
        requests = Requests(folder / "guard", number)
        return _Running(number, attempt, means, Sender(folder, number), Relay(exchange), requests)

    def _own_variables(self, job: Job) -> dict[str, str]:
        found = {"KEEPSTEP_GRACE": f"{self._part.grace_s:g}"}
        return found if job.servers else {**found, WANTED: "on"}

    def _means(self, job: Job, start: said.Start) -> Means:
        return Means(
            job=job,
            reaper=self._reaper,
            pool=self._pool,
            terminal=self._terminal,
            interrupted=lambda: self._signal,
            hurry=lambda: self._hurry or (self._interrupts is not None and self._interrupts.again),
            grace_s=self._part.grace_s,
            hang_s=self._part.hang_s,
            reserve=self._reserve,
            explains=self._part.leads,
            may_start_over=start.may_start_over,
            measured=Measuring(start, self._contact.send).take,
            pauses=self._pauses,
        )

    # --- evidence

    def _collect(self, running: _Running, asked: said.Collect) -> None:
        """Beside the watch: taking stacks may take seconds."""
        if running.collecting is not None and asked.anew:
            running.collecting.join(timeout=1.0)  # it has answered, and is about to end
        if running.collecting is not None and running.collecting.is_alive():
            return
        if asked.anew:
            with running.lock:
                running.sender.again()
        running.collecting = threading.Thread(target=self._collect_now, args=(running, asked), daemon=True)
        running.collecting.start()

    def _collect_now(self, running: _Running, asked: said.Collect) -> None:
        if asked.stacks and running.told is None:
            with contextlib.suppress(Exception):  # whatever prevents the look: the rest is evidence too
                (running.attempt.look_too if asked.long else running.attempt.take_stacks)()
        self._send_evidence(running)
        self._contact.send(said.Collected(attempt=running.number, known=known(running.attempt, running.outcome)))

    def _send_evidence(self, running: _Running, *, ended: bool = False) -> None:
        folder, until = running.attempt.folder, time.monotonic() + SEND_S
        with contextlib.suppress(OSError), running.lock:
            forget_repeated(folder, folder / "guard")
            if running.attempt.has_gaps:
                self._tell_gaps(folder)
            for parcel in running.sender.parcels(most_bytes=MOST_BYTES if ended else FIRST_BYTES, ended=ended):
                if not self._contact.send_in_turn(parcel, until):
                    running.sender.again()
                    return

    def _tell_gaps(self, folder: Path) -> None:
        """What is missing must not be taken for health."""
        with contextlib.suppress(OSError):
            os.close(open_private(folder / GAPS, os.O_WRONLY))  # an empty file takes no room
        if not self._told_gaps:
            self._told_gaps = True
            self._terminal.say(
                f"the disk under {self._room.parent} is full: the recording has gaps; "
                "the training itself is not affected"
            )

    # --- the end of an attempt

    def _end(self, running: _Running, outcome: Outcome, rank: int | None = None) -> None:
        self._contact.vitals = replace(self._contact.vitals, state=State.ENDS)
        self._running = None
        running.over.set()
        if rank is not None:
            outcome = replace(outcome, rank=rank)
        running.attempt.end(outcome)
        if running.collecting is not None:
            running.collecting.join(timeout=SEND_S)
        self._send_evidence(running, ended=True)
        running.attempt.close()
        running.means.looks.shutdown(wait=False, cancel_futures=True)
        self._reaper.lease(None)  # first: once the node is idle, it may get the next start, with a lease
        self._contact.vitals = Vitals()
        self._contact.send(said.Ended(attempt=running.number))
        shutil.rmtree(running.attempt.folder.parent / f"exchange-{running.number}", ignore_errors=True)
        shutil.rmtree(running.attempt.folder, ignore_errors=True)

    def _close(self) -> None:
        if self._running is not None:
            self._hurry = True
            self._end(self._running, Outcome(Happened.NODE_LOST))
        with contextlib.suppress(Exception):
            self._pool.close()
        self._reaper.kill_all(patience_s=5.0)
        self._reaper.bye()
        self._lookout.close()
        self._contact.close()
        shutil.rmtree(self._room, ignore_errors=True)
        boxes_in_memory.sweep()


class _Running:
    """This node's part of the attempt that runs now."""

    def __init__(
        self, number: int, attempt: Attempt, means: Means, sender: Sender, relay: Relay, requests: Requests
    ) -> None:
        self.number = number
        self.attempt = attempt
        self.means = means
        self.sender = sender
        self.relay = relay
        self.requests = requests
        self.outcome: Outcome | None = None
        self.told: said.Happened | None = None
        """What this node has reported to the leader, and reports again after a cut."""
        self.told_final = False
        self.collecting: threading.Thread | None = None
        self.over = threading.Event()
        self.lock = threading.Lock()
        """Evidence is sent by one thread at a time."""


def _gone(exit_: Exit | None) -> said.Gone | None:
    if exit_ is None:
        return None
    return said.Gone(pid=exit_.pid, at=exit_.at, code=exit_.code, signal=exit_.signal, dumped=exit_.dumped)
