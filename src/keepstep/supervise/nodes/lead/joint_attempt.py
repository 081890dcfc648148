# SPDX-License-Identifier: Apache-2.0
"""One attempt on several nodes: what the agents report, as the supervisor knows it from one machine."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from keepstep.base.wording import count, duration, listing, ranks
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.nodes import NodeLost, NodesMissing
from keepstep.model.facts.platform import Preempted
from keepstep.model.report import Report
from keepstep.store.fallback_folder import FindRoom
from keepstep.supervise.attempt_context import Outcome
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.decision import REFUSED
from keepstep.supervise.decide.remedy import Remedy
from keepstep.supervise.decide.situation import Happened, Situation
from keepstep.supervise.executor import Applied, Overtaken
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.heartbeat import now as clock
from keepstep.supervise.nodes.agent.lease import BEAT_S, SILENT_S
from keepstep.supervise.nodes.lead.after_failure import Further, pin_newcomers
from keepstep.supervise.nodes.lead.hosts_left_out import failure_of
from keepstep.supervise.nodes.lead.leader import Answer, Leader, Leaving, NodeTold
from keepstep.supervise.nodes.lead.limits_of_all import LimitsOfAll
from keepstep.supervise.nodes.lead.lost_nodes import NodeLosses
from keepstep.supervise.nodes.lead.membership import Expired, News, Returned, SilentNode, Vacant
from keepstep.supervise.nodes.lead.merged_state import stop_of, together
from keepstep.supervise.nodes.lead.more_nodes import Growing
from keepstep.supervise.nodes.lead.placement import NodePlace, counts, seat
from keepstep.supervise.nodes.lead.rendezvous import Gathering, TooFew
from keepstep.supervise.start.layout import MORE_PORTS, Layout
from keepstep.supervise.start.process_exit import Exit
from keepstep.supervise.watch.history_recorder import most_left

LOOK_S = 0.25
QUIET_S = 5.0
"""Without progress for longer than this, the status line says so."""
READY_S = 10.0
SETTLE_S = 4.0
"""One node's ranks have stopped: those of the others may be about to show it too."""
COLLECT_S = 20.0
END_MORE_S = 15.0
"""Besides the grace period: for the kernel to end the processes, and for the last evidence to arrive."""
AGAIN_S = 2.0
RETURNS_S = 10.0
"""Between two looks while a lost worker comes back alone."""
LOST_S = SILENT_S + 1.0
"""A rank failed, and the agent of another node does not answer: how long to see whether that is lost."""
STOPS = (Happened.STOPPED, Happened.SUSPECTED)
WELL = (Happened.ENDED_WELL, Happened.INTERRUPTED, Happened.GROWS)


class JointAttempt:
    """As :class:`keepstep.supervise.attempt.Attempt`, with agents in place of processes."""

    def __init__(
        self,
        number: int,
        folder: Path,
        leader: Leader,
        gathering: Gathering,
        applied: Applied,
        *,
        env: Mapping[str, str],
        may_start_over: bool,
    ) -> None:
        self.number = number
        self.folder = folder
        self.env = env
        self._leader = leader
        self._gathering = gathering
        self._applied = applied
        self._further: Further | None = None
        self._may_start_over = may_start_over
        self._layout = Layout()
        self._nodes: list[int] = []
        self._early: Outcome | None = None
        """What came of it before anything was started."""
        self._well: set[int] = set()
        self._losses = NodeLosses(folder, number)
        self._lost = self._losses.facts
        self._news: list[News | NodeTold | Leaving] = []
        """What was not looked at yet."""
        self._known: dict[int, said.Known] = {}
        self._signal: int | None = None
        self._growing: Growing | None = None
        self._judged: tuple[Outcome, Report] | None = None
        self._stood: tuple[float, dict[int, int]] = (0.0, {})
        """When no rank of any node was seen to move, and how many steps those of each node had made."""
        self._leaving = False
        """The engine takes a node away soon."""
        self._began = clock()
        self._status_due = 0.0
        alarms, pauses = gathering.alarms, not gathering.roles.ps
        self._limits = LimitsOfAll(folder, leader, alarms, self._say, pauses=pauses)
        self._readings = alarms.readings if alarms is not None else ()

    # --- the beginning

    def begin(self) -> None:
        """Gather the nodes, seat the ranks, start all of them or none."""
        first: float | None = None
        try:
            while (places := self._gathering.gather()) is not None:
                if not (missing := self._start(places)):
                    return
                first = first or time.monotonic()
                words = f"{_hosts_of(map(self._host, missing))} did not answer when asked to prepare the attempt"
                if time.monotonic() - first > self._gathering.again_s:
                    raise TooFew(f"{words}, for {duration(time.monotonic() - first)}")
                self._say(f"{words}: the nodes are gathered again; nothing was started")
            self._early = Outcome(Happened.INTERRUPTED)
        except TooFew as error:
            fact = NodesMissing(why=str(error), refused=error.refused, absent=error.absent)
            self._losses.write(fact, time.time(), str(error))
            self._early = Outcome(Happened.NODE_LOST, given_up=str(error))

    def _start(self, places: Sequence[NodePlace]) -> list[int]:
        """Returns the nodes that cannot take part after all; then nothing was started."""
        leader, applied, nodes = self._leader, self._applied, [place.node for place in places]
        if leader.newest_attempt >= self.number:  # an agent of an earlier leader has come since this one has its number
            raise Overtaken
        pin_newcomers(leader, self.number, places, applied, self._gathering)
        if not self._gathering.as_given and (missing := self._seat(places)):
            return missing
        if not self._gathering.first_look.take(self.number, self._layout, nodes):
            self._early = Outcome(Happened.EXITED, given_up=REFUSED)
            return []
        self._nodes = nodes
        try:
            leader.open(self.number, self.folder, self._layout, nodes)
        except ValueError:  # one has come just now
            raise Overtaken from None
        self._further = Further(leader, self.number, self.folder, self._layout, applied, self._gathering.cwd)
        self._tell_to_start()
        self._growing = Growing(leader, self._gathering, self.number, self._nodes)
        self._began = clock()
        return []

    def _seat(self, places: Sequence[NodePlace]) -> list[int]:
        """Give each rank its place, with ports that its node has found free. Returns the nodes that did not answer."""
        applied, roles = self._applied, self._gathering.roles
        places = [replace(place, address=applied.addresses.get(place.node, place.address)) for place in places]
        nodes, wanted = [place.node for place in places], counts(places, roles)
        self._leader.forget(said.Ready)
        for node in nodes:
            ports = applied.ports.get(node, ())
            self._leader.tell([node], said.Prepare(attempt=self.number, ranks=wanted[node] + MORE_PORTS, ports=ports))
        ready = self._answered(said.Ready, nodes, READY_S)
        if missing := [
            node for node in nodes if node not in ready or len(ready[node].ports) < wanted[node] + MORE_PORTS
        ]:
            return missing
        self._layout = seat(places, roles, {node: each.ports for node, each in ready.items()})
        return []

    def _tell_to_start(self) -> None:
        """Each node with the variables that remedies have set for it."""
        made: dict[tuple[tuple[str, str], ...], said.Start] = {}
        for node in self._nodes:
            variables = tuple(self._applied.variables_of(node).items())
            if variables not in made:  # most get the same one, which is encoded once
                made[variables] = said.Start(
                    attempt=self.number,
                    layout=self._layout,
                    variables=variables,
                    limits=tuple(self._applied.limits.items()),
                    may_start_over=self._may_start_over,
                    readings=self._readings,
                )
            self._leader.tell([node], made[variables])

    def _answered(self, kind: type[Answer], nodes: Iterable[int], seconds: float) -> dict[int, Answer]:
        """The answers of these nodes, as soon as all are there, or those that came in time."""
        until, wanted = time.monotonic() + seconds, set(nodes)
        while True:
            found = self._leader.answers(kind, self.number)
            missing = wanted - found.keys()
            if not missing & set(self._reachable(wanted)) or time.monotonic() > until:
                return found
            self._leader.wait(LOOK_S / 2)

    def _reachable(self, nodes: Iterable[int]) -> list[int]:
        """Those whose agent can answer: heard of late and, once ranks are started, the very agent that started them."""
        here = [node for node in nodes if self._leader.is_heard(node)]
        if self._leader.newest_attempt < self.number:
            return here
        members = {node: self._leader.member(node) for node in here}
        return [n for n, each in members.items() if each is not None and each.open == self.number and each.renews]

    # --- watching

    def watch(self) -> Outcome:
        """Until something must be decided."""
        outcome = self._watch()
        if outcome.happened not in WELL:
            self._gathering.first_look.write(self.folder)
        return outcome

    def _watch(self) -> Outcome:
        if self._early is not None:
            return self._early
        while True:
            if (signal_ := self._gathering.interrupted()) is not None:
                self._signal = signal_
                return self._collected(Outcome(Happened.INTERRUPTED))
            self._news = sorted(self._news + self._leader.news(), key=_is_stop)  # a lost node goes before its victims
            while self._news:
                if (outcome := self._take(self._news.pop(0))) is not None:
                    if outcome.happened in STOPS:  # one decision for all that have stopped
                        self._news = [each for each in self._news if not _is_stop(each)]
                    return outcome
            if not self._lost and not self._well and self._growing is not None and self._growing.is_time():
                return Outcome(Happened.GROWS)
            self._limits.tick(self._quiet_s())
            self._show_status()
            self._leader.wait(LOOK_S)

    def _quiet_s(self) -> float | None:
        """For how long no rank of any node has moved."""
        quiet = [self._leader.quiet_s(node) for node in self._nodes]
        return min((each for each in quiet if each is not None), default=None)

    def _show_status(self) -> None:
        """``attempt 1 · 3 min · 4 nodes · step 1200 · no progress for 20 s · 5 min left``; once a second."""
        if clock() < self._status_due:
            return
        self._status_due = clock() + 1.0
        heard = [node for node in self._nodes if self._leader.is_heard(node)]
        silent = f", {len(self._nodes) - len(heard)} silent" if len(heard) < len(self._nodes) else ""
        parts = [
            f"attempt {self.number}",
            duration(clock() - self._began),
            f"{count(len(self._nodes), 'node')}{silent}",
        ]
        steps = [self._leader.steps(node) for node in heard]
        if any(steps):
            parts.append(f"step {min(steps)}")
        quiet_s = self._quiet_s()
        if quiet_s is not None and quiet_s > QUIET_S:
            parts.append(f"no progress for {duration(quiet_s)}")
        left_s = most_left(self._leader.measured())
        if left_s is not None:
            parts.append(f"{duration(left_s)} left")
        self._gathering.status("keepstep: " + " · ".join(parts))

    def _take(self, each: object) -> Outcome | None:
        match each:
            case NodeTold(node=node, happened=happened) if happened.attempt == self.number and node in self._nodes:
                return self._told(node, happened)
            case NodeTold(happened=happened) if happened.what == Happened.INTERRUPTED.value:
                return self._interrupted(happened.signal)
            case SilentNode(node=node, since_s=since_s, why=why) if node in self._nodes:
                self._silent(node, since_s, why)
            case Returned(node=node, away_s=away_s) if node in self._nodes:
                self._losses.is_back(node)
                self._say(f"{self._host(node)} is back after {away_s:.1f} s")
            case Leaving(node=node) if node in self._nodes:
                return self._leaves(each)
            case Expired(node=node) if node in self._nodes and node not in self._well:
                return self._gone(node)
            case Vacant(node=node, attempt=attempt) if attempt == self.number and node in self._nodes:
                return self._gone(node)
            case _:
                pass
        return None

    def _told(self, node: int, told: said.Happened) -> Outcome | None:
        happened = Happened(told.what)
        if happened is Happened.INTERRUPTED:
            return self._interrupted(told.signal)
        if happened is Happened.ENDED_WELL:
            self._well.add(node)
            awaited = self._layout.nodes_that_end or set(self._nodes)
            return self._collected(Outcome(happened), stacks=False) if self._well >= awaited else None
        exit_ = _exit(told.exit)
        outcome = Outcome(happened, rank=told.rank, exit=exit_, given_up=told.given_up)
        if happened not in STOPS:
            return self._collected(self._or_lost(node, outcome))
        if not _all_stand_still(self._leader, self._nodes, node):
            return None  # others make progress: what this node waits for may come
        self._stood = clock(), {each: self._leader.steps(each) for each in self._nodes}
        outcome = self._collected(outcome, long=True)
        if any(each.returning for each in self._known.values()):
            self.hold(RETURNS_S)  # the node asks again then
            return None
        return replace(outcome, stop=stop_of(told, self._known.get(node, said.Known())))

    def _interrupted(self, signal_: int | None) -> Outcome:
        """A signal that one agent got is one event for all: the engine sends it to each, in its own time."""
        self._signal = signal_
        self._gathering.interrupt(signal_)
        return self._collected(Outcome(Happened.INTERRUPTED))

    def _collected(self, outcome: Outcome, *, stacks: bool = True, long: bool = False, anew: bool = False) -> Outcome:
        """The stacks and the state of all ranks on all nodes, before anything is ended."""
        self._leader.forget(said.Collected)
        self._leader.tell(self._nodes, said.Collect(attempt=self.number, stacks=stacks, long=long, anew=anew))
        for node, each in self._answered(said.Collected, self._kept(), COLLECT_S).items():
            self._known[node] = each.known
        return outcome

    def move(self, find_room: FindRoom, outcome: Outcome) -> None:
        """If its folder cannot be written, what the agents still have comes once more, into another one."""
        if (moved := find_room()) is None:
            return
        self.folder = (moved.new / self.folder.name).absolute()
        self._losses.move(self.folder)
        self._losses.write(moved.fact, time.time(), moved.words)
        self._gathering.first_look.write(self.folder)
        if self._further is not None:
            self._further.folder = self.folder
            self._leader.move(self.folder)
            self._collected(outcome, stacks=False, anew=True)

    # --- lost nodes

    def _or_lost(self, first: int, outcome: Outcome) -> Outcome:
        """A rank failed. If another node is going silent just now, that is why: ranks lose their peers at once."""
        until = time.monotonic() + LOST_S
        while time.monotonic() < until and not self._lost and any(self._may_be_lost(node) for node in self._nodes):
            self._see_the_silent()
            self._leader.wait(LOOK_S / 2)
        lost = next((fact for node, fact in self._lost.items() if node != first), None)
        if lost is None:
            return outcome
        return replace(outcome, happened=Happened.NODE_LOST, rank=lost.ranks[0] if lost.ranks else None)

    def _see_the_silent(self) -> None:
        for each in self._leader.news():
            if isinstance(each, SilentNode | Returned) and each.node in self._nodes:
                self._take(each)
            elif isinstance(each, NodeTold) and each.happened.what == Happened.INTERRUPTED.value:
                self._gathering.interrupt(each.happened.signal)

    def _may_be_lost(self, node: int) -> bool:
        member = self._leader.member(node)
        return member is not None and (member.connection is None or clock() - member.heard > 2 * BEAT_S)

    def _kept(self) -> list[int]:
        """The nodes to wait for: on one that is lost, an agent that is new there knows nothing of this attempt."""
        return [node for node in self._nodes if node not in self._lost]

    def _silent(self, node: int, since_s: float, why: str | None) -> None:
        seats = tuple(seat.rank for seat in self._layout.seats if seat.node == node)
        here = self._gathering.ended_here(node)
        gone = f"its agent is gone ({why})" if why is not None else "nothing arrives from it any more"
        how = here or gone
        whom = f", with {ranks(seats)}," if seats else ""
        self._say(f"{self._host(node)}{whom} has been silent for {since_s:.1f} s: {how}; waiting for it to come back")
        fact = NodeLost(host=self._host(node), node=node, ranks=seats, closed=why is not None, why=why, here=here)
        self._losses.add(fact, since_s)

    def _leaves(self, each: Leaving) -> Outcome:
        """One event for all ranks: they get SIGTERM and the whole grace period, as if the run itself were to end."""
        self._leaving = True
        seats = tuple(seat.rank for seat in self._layout.seats if seat.node == each.node)
        quote, grace_s = f"{each.by} {each.why}", self._gathering.grace_s
        self._say(f"{quote}; all ranks get SIGTERM and {grace_s:.0f} s to save their work")
        self._losses.write(
            Preempted(by=each.by, reason=f"it {each.why}", node=self._host(each.node)), time.time(), quote
        )
        return self._collected(Outcome(Happened.NODE_LOST, rank=seats[0] if seats else None), stacks=False)

    def _gone(self, node: int) -> Outcome:
        if node not in self._lost:
            member = self._leader.member(node)
            if slept_s := self._leader.slept_s():
                self._losses.own = True
                self._silent(node, 0.0, f"the leader itself was not run for {slept_s:.0f} s, and leases ended")
            elif member is not None and not member.renews:
                self._silent(node, 0.0, "another agent has taken its place: it was started again")
            elif not self._losses.was_lost(node):
                self._silent(node, 0.0, "its ranks were ended there, because its agent had lost touch with the leader")
        seats = self._lost[node].ranks
        return self._collected(Outcome(Happened.NODE_LOST, rank=seats[0] if seats else None))

    def look_further(self, report: Report, progress: AttemptProgress) -> bool:
        """The network between the hosts, if that or hardware is to blame, and not one node that went silent."""
        if self._further is None or self._lost:
            return False
        return self._further.look(report, progress, self._nodes, self._gathering)

    def goes_on(self, outcome: Outcome) -> bool:
        """Whether ranks of any node have moved since the stop was reported."""
        since, steps = self._stood
        kept = [node for node in self._kept() if node in steps]
        if outcome.stop is not None and outcome.stop.suspicion.kind == "alone":
            return False  # others go on meanwhile, and only its node knows whether that rank does
        moved = any(self._leader.steps(node) > steps[node] or self._leader.moved_since(node, since) for node in kept)
        if moved and self._further is not None:
            self._further.forget()
        return moved

    def offers(self, report: Report, progress: AttemptProgress) -> tuple[Remedy, ...]:
        """What could be done about the report's root cause."""
        return self._further.offers(report, progress, self.env) if self._further is not None else ()

    # --- after a decision

    def hold(self, wait_s: float) -> None:
        """Leave a suspected stop alone."""
        self._leader.tell(self._nodes, said.Hold(attempt=self.number, seconds=wait_s))

    def end(self, outcome: Outcome) -> None:
        """End what is left on all nodes that can be reached. The others end it themselves when their lease is over."""
        for each in self._news:
            if isinstance(each, NodeTold) and each.happened.what == Happened.INTERRUPTED.value:
                self._gathering.interrupt(each.happened.signal)  # it came together with what was decided upon
        if not self._nodes:
            return
        self._limits.end()
        until = time.monotonic() + self._gathering.grace_s + END_MORE_S
        while time.monotonic() < until:
            open_ = [node for node in self._nodes if node not in self._leader.answers(said.Ended, self.number)]
            if not self._reachable(node for node in open_ if node not in self._lost):
                self._leader.tell(open_, self._end(outcome))
                break
            self._leader.tell(open_, self._end(outcome))
            self._answered(said.Ended, [node for node in open_ if node not in self._lost], AGAIN_S)

    def _end(self, outcome: Outcome) -> said.End:
        return said.End(
            attempt=self.number,
            what=Happened.INTERRUPTED.value if self._leaving else outcome.happened.value,
            rank=outcome.rank,
            signal=signal.SIGTERM if self._leaving else self._signal,
            hurry=self._gathering.hurry(),
        )

    def close(self) -> None:
        """Remember what this attempt says about its hosts."""
        if self._judged is None or not self._nodes or self._losses.own:
            return
        outcome, report = self._judged
        lost, machines = [fact.host for fact in self._lost.values()], [self._host(node) for node in self._nodes]
        failure = failure_of(self.number, outcome.happened, report, lost=lost, machines=machines, layout=self._layout)
        if failure is not None:
            self._gathering.failed(failure)

    # --- what is known

    @property
    def steps(self) -> int | None:
        """How many the rank that got furthest has done."""
        return max((self._leader.steps(node) for node in self._nodes), default=0) or None

    @property
    def step_s(self) -> float | None:
        """How long a step usually takes, by what the nodes have reported."""
        return max((each.usual_s for each in self._known.values() if each.usual_s is not None), default=None)

    @property
    def has_gaps(self) -> bool:
        return False

    @property
    def unwritten(self) -> Sequence[Evidence[Fact]]:
        return ()

    @property
    def parts(self) -> Sequence[Path]:
        return [self.folder / f"node{node}" for node in self._nodes]

    def situation(
        self, outcome: Outcome, report: Report, progress: AttemptProgress, *, remedies: tuple[str, ...] = ()
    ) -> Situation:
        """What the policy decides upon: of all nodes together."""
        self._judged = outcome, report
        named = report.root.ranks if outcome.stop is not None and report.root is not None else ()
        awaited = [self._known[node] for node in self._layout.nodes_of(named) if node in self._known]
        now = together(
            self.number, outcome, report, progress, list(self._known.values()), awaited, steps=self.steps or 0
        )
        return replace(now, lived_s=clock() - self._began, remedies=remedies)

    def _say(self, text: str) -> None:
        self._gathering.say(text)

    def _host(self, node: int) -> str:
        return self._leader.host(node)


def _all_stand_still(leader: Leader, nodes: Iterable[int], first: int) -> bool:
    """Whether the ranks of all nodes make no steps, as far as their agents can tell."""
    others = [node for node in nodes if node != first]
    before = {node: leader.steps(node) for node in others}
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        if any(leader.steps(node) != before[node] for node in others):
            return False
        quiet = [leader.quiet_s(node) for node in others]
        if all(each is not None and each > SETTLE_S / 2 for each in quiet):
            break
        time.sleep(LOOK_S)
    return True


def _is_stop(news: News | NodeTold | Leaving) -> bool:
    """Whether a node reports ranks that make no progress: what is lost goes before, as it may be the reason."""
    return isinstance(news, NodeTold) and news.happened.what in {each.value for each in STOPS}


def _hosts_of(hosts: Iterable[str]) -> str:
    """The hosts in words: how many nodes, and which."""
    every = list(hosts)
    return f"{count(len(every), 'node')} ({listing(every)})"


def _exit(gone: said.Gone | None) -> Exit | None:
    if gone is None:
        return None
    return Exit(pid=gone.pid, at=gone.at, code=gone.code, signal=gone.signal, dumped=gone.dumped)
