# SPDX-License-Identifier: Apache-2.0
"""What is shown of a run: plain data, the same for the terminal and the page."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong."""

    title: str
    because: str
    cause: str
    who: str
    """Its ranks in words, with their hosts where there are several."""
    ranks: tuple[int, ...]
    sure: str
    severity: str
    role: str
    attempt: int | None
    since: float | None
    """When the earliest sign of it was seen."""
    cost: str
    """What it takes away, in words; empty where nobody can tell."""
    decided: str
    """What `keepstep run` decided; empty: nothing yet."""
    fixes: tuple[tuple[str, str], ...]
    """What to do, and the command or code for it."""
    quotes: tuple[tuple[str, str], ...]
    """Where it was seen, and the words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    number: int
    began: float
    ended: float | None
    status: int | None
    title: str
    cause: str
    decided: str
    steps: int | None
    step_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank as it was last seen."""

    rank: int
    host: str
    state: str
    """``alive``, ``silent`` (no progress for long), ``gone`` (it ended before the others) or ``ended``."""
    phase: str
    steps: int
    step_s: float | None
    wait: float | None
    """Share of its recent time in which its training thread neither ran nor was ready to run."""
    memory_bytes: float | None
    age_s: float
    """How old what is known about it is."""
    quiet_s: float
    """How long it has shown no progress."""
    blamed: bool
    """Whether a problem names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One host as it was last measured; None: not measured."""

    host: str
    ranks: int
    age_s: float
    cpu: float | None
    """Shares, of all processors and of memory."""
    memory: float | None
    full_in_s: float | None
    """When its memory is full, should it go on as it does; None: not within an hour."""
    disk: float | None
    gpus: int
    tpus: bool
    """Whether they are TPUs."""
    gpu_busy: float | None
    """Of the one that is busy least."""
    gpu_memory: float | None
    """Of the fullest one."""
    net_in: float | None
    net_out: float | None
    resent: float | None
    """Share of TCP segments that were sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """One direction of one link."""

    source: int
    target: int
    """Which of the hosts."""
    text: str
    level: int
    """0 as fast as the others, up to 3 for far slower; 4 unusable."""
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksView:
    """The links between hosts, measured once an attempt had failed."""

    attempt: int
    hosts: tuple[str, ...]
    left_out: int
    """More hosts, whose links are as usual."""
    usual_bytes_s: float
    links: tuple[LinkView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run at one moment."""

    name: str
    folder: str
    command: str
    state: str
    """As `keepstep runs` says it: running, finished, failed, stopped or killed."""
    status: int | None
    verdict: str
    began: float
    ended: float | None
    at: float
    """The moment: now, or for a run that is over, its end."""
    world: int
    problems: tuple[Problem, ...] = ()
    said: tuple[str, ...] = ()
    """What the user was told while it ran, or is worth knowing, and no problem says."""
    attempts: tuple[AttemptView, ...] = ()
    ranks: tuple[RankView, ...] = ()
    """All of them, those that matter first."""
    steps: int = 0
    step_s: float | None = None
    left_s: float | None = None
    """How long the rest takes, by what ranks print of their progress; None: unknown, or it is over."""
    goodput: float | None = None
    """Share of the ranks' time that was productive; None: unknown."""
    lost: tuple[tuple[str, float, str], ...] = ()
    """Where the rest went: bucket, seconds of ranks, explanation."""
    hosts: tuple[HostView, ...] = ()
    """Those that matter first."""
    links: LinksView | None = None
    trouble: tuple[str, ...] = field(default=())
    """What could not be read."""

    @property
    def alive(self) -> bool:
        return self.state == "running"
