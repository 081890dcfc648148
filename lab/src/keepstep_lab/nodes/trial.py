# SPDX-License-Identifier: Apache-2.0
"""A scenario between nodes: what it is, carried out, and judged by cause, host, rank, statuses and what is left."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.report import Report
from keepstep.supervise.nodes.agent.heartbeat import Crowd
from keepstep.supervise.nodes.agent.lease import LEASE_S, LONGEST_S
from keepstep_lab import hosts as lab
from keepstep_lab import sshd, sweeper
from keepstep_lab.launch import ending_on_sigterm, swept
from keepstep_lab.machines import PORT, STEPS, Agent, InVain, Machines
from keepstep_lab.sshd import Sshd

SOON_S = 3.0
TOLD = re.compile(r"^keepstep: (?P<title>.*) \[(?P<cause>[a-z_]+\.[a-z_0-9]+)\]$", re.M)
"""How the leader reports a cause before it goes on."""


@dataclass(frozen=True, kw_only=True)
class NodeScenario:
    """A run of `keepstep run --nodes ... --meet` on several machines, and one fault."""

    name: str
    note: str
    """What happens, in a sentence or two."""
    act: Callable[[Trial], None]
    """Strikes once the ranks of attempt 0 run, and waits until what must follow has followed."""
    before: Callable[[Trial], None] | None = None
    """Prepares the machines."""
    engine: str = "meet"
    """Who starts the agents: ``meet``, one by one, or ``ssh``, from machine 0, which has no ranks then."""
    nodes: str = "2"
    machines: int = 2
    spares: int = 0
    """Of the machines."""
    per_node: int = 1
    guarded: bool = False
    """Ranks make steps and save checkpoints under the guard, and hosts are looked at before each attempt."""

    cause: str | None = None
    """What must be reported about attempt 0; None: nothing, the run is healthy."""
    host: str = ""
    """The machine that the report must name."""
    ranks: tuple[int, ...] = ()
    """Those that it may blame."""
    also: tuple[str, ...] = ()
    """Rules that must have found something besides."""
    attempts: int = 2
    """How many must have run. Never two at once."""
    statuses: tuple[int | None, ...] = (0, 0)
    """Of the agents, in the order of their start; None: the fault killed it."""
    says: tuple[tuple[int, str], ...] = ()
    """Agents, and what they must have said."""
    named: str = ""
    """What the leader must say within 3 s after the fault."""
    folder: bool = True
    """Whether the leader's run folder must tell the same as its terminal."""
    quick: bool = False
    """Run for real by `make test`."""


@dataclass
class NodeOutcome:
    """What came of it."""

    scenario: str
    wrong: list[str] = field(default_factory=list)
    """Sentences; none: all as it must be."""
    skipped: str = ""
    cause: str | None = None
    title: str = ""
    named_s: float | None = None
    """From the fault until the leader has named it."""
    back_s: float | None = None
    """From the fault until all ranks of the next attempt ran."""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        return not self.wrong and not self.skipped


@dataclass
class Trial:
    """A scenario while it is carried out."""

    scenario: NodeScenario
    machines: Machines
    agents: list[Agent] = field(default_factory=list)
    struck: float | None = None
    named_at: float | None = None
    back: float | None = None
    crowded: bool = False
    """This machine has far more to do than it can: leases, and what waits for their end, are longer then."""
    ssh: Sshd | None = None
    host: str = ""
    """The machine that the report must name, where only the run decides which one it is."""

    @property
    def leader(self) -> Agent:
        return self.agents[0]

    def start(self, host: int, *, port: int = PORT, env: Mapping[str, str] | None = None) -> Agent:
        """One more agent of this run; with ssh, the process that starts all of them."""
        scenario = self.scenario
        options = ["--nodes", scenario.nodes, "--per-node", str(scenario.per_node)]
        options += ["--spare-nodes", str(scenario.spares)] if scenario.spares else []
        env = {**({"KEEPSTEP": "on"} if scenario.guarded else {}), **(env or {})}
        if self.ssh is not None:
            hosts = tuple(range(1, scenario.machines))
            agent = self.ssh.run(*options, on=hosts, check=scenario.guarded)
        else:
            agent = self.machines.meet(host, *options, port=port, env=env, check=scenario.guarded)
        self.agents.append(agent)
        return agent

    def start_all(self) -> None:
        scenario = self.scenario
        if scenario.guarded:
            for host in range(scenario.machines):
                self.machines.of(host, "work", "train.py").write_text(STEPS)
        if scenario.engine == "ssh":
            self.ssh = Sshd(self.machines, env={"KEEPSTEP": "on"} if scenario.guarded else None)
            self.start(0)
            return
        for host in range(len(self.agents), scenario.machines):
            self.start(host)

    @property
    def world(self) -> int:
        """How many ranks attempt 0 has."""
        scenario = self.scenario
        return (scenario.machines - scenario.spares - (scenario.engine == "ssh")) * scenario.per_node

    def strike(self) -> None:
        """The fault begins now."""
        self.struck, self.crowded = time.monotonic(), Crowd().is_here()

    def sleep_until(self, seconds: float) -> None:
        """So long after the fault."""
        assert self.struck is not None
        time.sleep(max(0.0, self.struck + seconds - time.monotonic()))

    def comes_back(self, world: int, attempt: int = 1) -> None:
        """The next attempt runs, with so many ranks."""
        self.back = self.machines.wait_for_attempt(attempt, world)

    # --- from the first agent to the verdict

    def carry_out(self) -> NodeOutcome:
        scenario, outcome = self.scenario, NodeOutcome(self.scenario.name)
        began = time.monotonic()
        try:
            if scenario.before is not None:
                scenario.before(self)
            self.start_all()
            self.machines.wait_for_attempt(0, self.world)
            scenario.act(self)
            self.machines.finish()
            statuses = [agent.ended(150.0) for agent in self.agents]
            self._judge(outcome, statuses)
        except InVain as error:
            outcome.wrong.append(str(error))
        finally:
            if self.ssh is not None:
                self.ssh.close()
        outcome.seconds = round(time.monotonic() - began, 1)
        return outcome

    def _judge(self, outcome: NodeOutcome, statuses: list[int]) -> None:
        scenario, wrong = self.scenario, outcome.wrong
        for agent, (status, wanted) in enumerate(zip(statuses, scenario.statuses, strict=True)):
            if wanted is not None and status != wanted:
                wrong.append(f"agent {agent} ended with status {status}, not {wanted}: {self.agents[agent].said}")
        for agent, words in scenario.says:
            if words not in self.agents[agent].said:
                wrong.append(f"agent {agent} did not say {words!r}: {self.agents[agent].said}")
        if self.back is not None and self.struck is not None:
            outcome.back_s = round(self.back - self.struck, 1)
        ran = sorted(self.machines.spans())
        if ran != list(range(scenario.attempts)):
            wrong.append(f"attempts {ran} ran, and not {scenario.attempts}")
        if not self.machines.never_two_at_once():
            wrong.append(f"two attempts ran at once: {self.machines.spans()}")
        if left := self.machines.left():
            wrong.append(f"left behind: {left}")
        self._judge_words(outcome)
        if scenario.folder:
            self._judge_folder(outcome)

    def _judge_words(self, outcome: NodeOutcome) -> None:
        """What the leader said on its terminal, and how soon."""
        scenario, wrong = self.scenario, outcome.wrong
        told = TOLD.search(self.leader.said)
        outcome.cause, outcome.title = (told["cause"], told["title"]) if told is not None else (None, "")
        if outcome.cause != scenario.cause:
            wrong.append(f"the leader reported {outcome.cause}, not {scenario.cause}: {self.leader.said}")
        elif (self.host or scenario.host) not in self.leader.said:
            wrong.append(f"the leader does not name {scenario.host}: {self.leader.said}")
        if scenario.named:
            outcome.named_s = self._named_s()
            if outcome.named_s is None or outcome.named_s > SOON_S * (LONGEST_S / LEASE_S if self.crowded else 1.0):
                wrong.append(f"{scenario.named!r} was said after {outcome.named_s} s: {self.leader.said}")

    def _named_s(self) -> float | None:
        return None if self.named_at is None or self.struck is None else round(self.named_at - self.struck, 1)

    def is_named(self) -> None:
        """Wait until the leader has named it."""
        self.named_at = self.leader.says(self.scenario.named, 20.0)
        self.crowded = self.crowded or Crowd().is_here()

    def _judge_folder(self, outcome: NodeOutcome) -> None:
        """What `keepstep why` reads in the leader's run folder."""
        scenario, wrong = self.scenario, outcome.wrong
        folders = sorted(self.machines.of(0, "state").glob("keepstep/runs/2*/attempt-0"))  # if it lost its place
        folders += sorted(self.machines.of(0, "work").glob(".keepstep/runs/2*/attempt-0"))
        if not folders:
            wrong.append("the leader left no run folder")
            return
        report = explain_paths([folders[0]]).report
        if missing := {*scenario.also} - {each.rule for each in report.findings}:
            wrong.append(f"`keepstep why` says nothing of {sorted(missing)}")
        root, host = report.root, self.host or scenario.host
        if (root.cause.value if root is not None else None) != scenario.cause:
            wrong.append(f"`keepstep why` says {root.title if root is not None else report.verdict.value}")
        elif root is not None and not (_some(root.ranks, scenario.ranks) and host in _hosts(report)):
            wrong.append(f"`keepstep why` names ranks {root.ranks} on {_hosts(report)}")


def _hosts(report: Report) -> set[str]:
    """The machines that the root cause is about."""
    assert report.root is not None
    found = {each.rank.node for each in report.root.evidence if each.rank is not None and each.rank.node is not None}
    return found | {word.strip(",") for word in report.root.title.split()}


def _some(named: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return bool(named) and {*named} <= {*right}


def run_one(scenario: NodeScenario, keep: Path | None = None) -> NodeOutcome:
    """Carry out one scenario here and judge it. ``keep``: copy what the machines were left with there."""
    absent = sshd.missing() if scenario.engine == "ssh" else lab.missing()
    if absent is not None:
        return NodeOutcome(scenario.name, skipped=absent)
    token = secrets.token_hex(6)
    work = Path(tempfile.mkdtemp(prefix="keepstep-lab-"))
    env = {**os.environ, sweeper.VARIABLE: token}
    with swept(token, work), ending_on_sigterm(), contextlib.ExitStack() as stack:
        folder = work / "machines"
        folder.mkdir()
        machines = Machines(scenario.machines, folder, env)
        stack.callback(machines.close)
        outcome = Trial(scenario, machines).carry_out()
        if keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        return outcome
