# SPDX-License-Identifier: Apache-2.0
"""What is done to the machines of a run: one function per fault, each waits until what must follow has followed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time

from keepstep.base.proc_stat import read_stat
from keepstep.supervise.nodes.agent.lease import LONGEST_S
from keepstep_lab.hosts import name
from keepstep_lab.machines import PORT, InVain, wait_for
from keepstep_lab.nodes.trial import Trial

CUT = 1
"""The machine that is cut off."""
CLOCK = """\
import time
_now, _now_ns = time.time, time.time_ns
time.time = lambda: _now() + 300.0
time.time_ns = lambda: _now_ns() + 300 * 10**9
"""
"""Puts the clock of every Python program 5 minutes ahead. Leases use clocks that cannot be set."""


def short_cut(trial: Trial, target: str) -> None:
    """5 s: nothing may be restarted."""
    trial.strike()
    trial.machines.drop(CUT, target=target)
    trial.is_named()
    trial.sleep_until(5.0)
    trial.machines.mend(CUT)
    trial.leader.says("node-1 is back after")
    trial.sleep_until(15.0)


def cut(trial: Trial, target: str = "DROP", chains: tuple[str, ...] = ("INPUT", "OUTPUT")) -> None:
    """Until the others go on without it; then it comes back."""
    trial.strike()
    trial.machines.drop(CUT, target=target, chains=chains)
    trial.is_named()
    trial.comes_back(trial.world - trial.scenario.per_node)
    trial.machines.mend(CUT)
    trial.leader.says("node-1 can take part")


def grown_then_killed(trial: Trial) -> None:
    """A node is cut off and comes back; once the world has grown again, one of its ranks is killed."""
    last = trial.scenario.machines - 1
    trial.strike()
    trial.machines.drop(last)
    trial.comes_back(trial.world - trial.scenario.per_node)
    trial.machines.mend(last)
    trial.leader.says("the world grows")
    trial.machines.wait_for_attempt(2, trial.world)
    _kill_a_rank(trial, attempt=2)
    trial.machines.wait_for_attempt(3, trial.world)


def swapped_then_killed(trial: Trial) -> None:
    """A spare takes the place of a node that is cut off. That comes back, and a rank is killed, twice."""
    trial.leader.says("spare: ")
    trial.host = _places(trial, 0)[-1][-1]  # the spare is the one that came last
    (cut,) = (host for host in range(trial.scenario.machines) if name(host) == trial.host)
    trial.strike()
    trial.machines.drop(cut)
    trial.comes_back(trial.world)
    trial.machines.mend(cut)
    trial.leader.says(f"spare: {trial.host}")
    for attempt in (1, 2):
        _kill_a_rank(trial, attempt=attempt)
        trial.machines.wait_for_attempt(attempt + 1, trial.world)
        if _places(trial, attempt + 1) != _places(trial, attempt):
            raise InVain(f"a rank that was killed has cost a node its place: {trial.leader.said}")


def _places(trial: Trial, attempt: int) -> list[list[str]]:
    """Which rank is on which machine."""
    found = [each.name.split("-", 3) for each in trial.machines.ran(attempt, trial.world)]
    return [[rank, where.rpartition("-")[0]] for _, rank, _, where in found]


def _kill_a_rank(trial: Trial, attempt: int) -> None:
    """The last one, once it has made some steps, more than the attempt before: else the policy sees no progress."""
    last = str(trial.world - 1)
    (path,) = (each for each in trial.machines.ran(attempt, trial.world) if each.name.split("-")[1] == last)
    wait_for(lambda: len(path.read_text().splitlines()) > 60 * attempt, "steps")
    os.kill(int(path.name.rpartition("-")[2]), signal.SIGKILL)


def cut_for_a_minute(trial: Trial) -> None:
    """The run waits for it."""
    trial.strike()
    trial.machines.drop(CUT)
    trial.is_named()
    trial.sleep_until(60.0)
    trial.machines.mend(CUT)
    trial.comes_back(trial.world)


def agent_killed(trial: Trial) -> None:
    trial.strike()
    trial.agents[1].process.kill()
    trial.is_named()
    trial.comes_back(trial.world - trial.scenario.per_node)


def leader_killed(trial: Trial, also: tuple[int, ...] = ()) -> None:
    """The ranks end with their leases, and the agents some time later."""
    trial.strike()
    for agent in (*also, 0):
        trial.agents[agent].process.kill()
    longest = LONGEST_S + 16.0  # where the host is crowded, leases are that long
    wait_for(lambda: not any(_lives(pid) for pid in trial.machines.pids(0, trial.world)), "all ranks to end", longest)


def leader_started_again(trial: Trial) -> None:
    trial.strike()
    trial.leader.process.kill()
    trial.leader.process.wait()
    trial.start(0)
    trial.comes_back(trial.world)


def ranks_killed(trial: Trial) -> None:
    """All of one node, and all at once."""
    trial.strike()
    for pid in trial.machines.pids(0, trial.world, host=CUT):
        os.kill(pid, signal.SIGKILL)
    trial.comes_back(trial.world)


def slow(trial: Trial) -> None:
    """The agent and the ranks of one node get a tenth of the time, for 20 s."""
    pids = [int(each.split()[0]) for each in trial.machines.processes(CUT)]
    trial.strike()
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        _signal_all(pids, signal.SIGSTOP)
        time.sleep(0.45)
        _signal_all(pids, signal.SIGCONT)
        time.sleep(0.05)
    time.sleep(3.0)


def wrong_clock(trial: Trial) -> None:
    """Before the start."""
    folder = trial.machines.of(CUT, "clock")
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(CLOCK)
    trial.start(0)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    trial.start(CUT, env={"PYTHONPATH": os.pathsep.join(paths)})


def read_only(trial: Trial) -> None:
    """The folder of the leader's runs cannot be written any more, and then ranks are killed."""
    runs = str(trial.machines.of(0, "work", ".keepstep", "runs"))
    trial.machines.net.do(0, "mount", "--bind", runs, runs)
    trial.machines.net.do(0, "mount", "-o", "remount,bind,ro", runs)
    ranks_killed(trial)


def folder_gone(trial: Trial) -> None:
    """The folder of the leader's runs is removed, and then ranks are killed."""
    shutil.rmtree(trial.machines.of(0, "work", ".keepstep"))
    ranks_killed(trial)


def small_run_folder(trial: Trial) -> None:
    """Before the start: the leader's run folder is a disk of its own."""
    place = trial.machines.of(0, "work", ".keepstep")
    place.mkdir()
    trial.machines.net.do(0, "mount", "-t", "tmpfs", "-o", "size=4m", "disk", str(place))


def folder_full(trial: Trial) -> None:
    """The disk of the leader's run folder is filled, and then ranks are killed."""
    place = trial.machines.of(0, "work", ".keepstep", "filled")
    trial.machines.net.do(0, "sh", "-c", f"dd if=/dev/zero of={place} bs=4k 2>/dev/null; true")
    ranks_killed(trial)


def small_disk(trial: Trial) -> None:
    """Before the start: one node's temporary folder is a disk of its own."""
    place = str(trial.machines.of(CUT, "tmp"))
    trial.machines.net.do(CUT, "mount", "-t", "tmpfs", "-o", "size=16m", "disk", place)


def disk_full(trial: Trial) -> None:
    place = trial.machines.of(CUT, "tmp", "filled")
    trial.machines.net.do(CUT, "sh", "-c", f"dd if=/dev/zero of={place} bs=64k 2>/dev/null; true")
    ranks_killed(trial)
    trial.machines.net.do(CUT, "rm", str(place))


def second_run(trial: Trial) -> None:
    """On the same machines: with the same port it is refused; with another port both go on."""
    refused = trial.start(0)
    refused.ended()
    trial.start(0, port=PORT + 1)
    trial.start(1, port=PORT + 1)
    trial.agents[3].says("on 2 nodes")
    wait_for(lambda: len(trial.machines.pids(0, trial.world)) == 2 * trial.world, "the ranks of both runs")


def _lives(pid: int) -> bool:
    found = read_stat(pid)
    return found is not None and found.lives


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
