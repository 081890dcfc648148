# SPDX-License-Identifier: Apache-2.0
"""Waiting for enough nodes before an attempt: all that were asked for, or as few as the user allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.wording import count, duration, listing
from keepstep.supervise.nodes.agent.heartbeat import now as clock
from keepstep.supervise.nodes.lead.hosts_left_out import Excluded, Failure, excluded, next_world
from keepstep.supervise.nodes.lead.leader import Leader, Leaving
from keepstep.supervise.nodes.lead.nodes_preflight import FirstLook
from keepstep.supervise.nodes.lead.placement import NodePlace, Roles
from keepstep.supervise.nodes.messages import NEVER
from keepstep.supervise.watch.alarms import Alarms

MORE_S = 5.0
"""Once there are as many as needed, for the rest of those that may take part."""
IN_ORDER_S = 15.0
"""Once there are as many as may take part, for those that come first in the list of hosts."""
TELL_S = 10.0
END_S = 0.5
"""Between two requests to end what an earlier leader has started."""


class NotThere(str):
    """Why a host is missing: it was reached, and has no such command or folder."""

    __slots__ = ()


class TooFew(Exception):
    """There are not enough nodes; the text says which are missing and what can be done."""

    def __init__(self, words: str, *, refused: bool = False, absent: bool = False) -> None:
        """``refused``: some came, but cannot take part. ``absent``: a host lacks the command or the folder."""
        super().__init__(words)
        self.refused, self.absent = refused, absent


@dataclass
class Gathering:
    """What all attempts of a run on several nodes share."""

    leader: Leader
    least: int
    most: int
    say: Callable[[str], None]
    interrupted: Callable[[], int | None]
    """The signal that asked the run to end, if any."""
    interrupt: Callable[[int | None], None]
    hurry: Callable[[], bool]
    first_look: FirstLook
    cwd: Path
    """Of the ranks."""
    first_s: float
    """How long to wait for enough nodes before the first attempt."""
    again_s: float
    """The same before a later one."""
    more_s: float = MORE_S
    """How long to wait for more than enough, before the first attempt."""
    roles: Roles = field(default_factory=Roles)
    as_given: bool = False
    grace_s: float = 10.0
    alarms: Alarms | None = None
    """Limits on what all nodes measure."""
    status: Callable[[str], None] = lambda text: None
    """Shows the live line."""
    tend: Callable[[], list[str]] = list
    """Restarts agents that have ended; says why some are missing."""
    ended_here: Callable[[int], str | None] = lambda node: None
    """What ended the connection to a node on this host, in words, if that is known."""
    taken_out: set[str] = field(default_factory=set)
    """Hosts that the engine no longer counts."""
    failures: list[Failure] = field(default_factory=list)
    """Of hosts, in this run."""
    took_part: dict[int, str] = field(default_factory=dict)
    """The nodes of all attempts so far, and their hosts."""
    _before: list[int] | None = None
    _left_out: dict[str, Excluded] = field(default_factory=dict)
    _needed: bool = False
    """A host that was left out must take part again: there are not enough others."""
    _spares: list[int] = field(default_factory=list)
    _ask_again: float = 0.0

    def gather(self) -> list[NodePlace] | None:
        """The nodes of the next attempt; None if the user ended the run meanwhile. Raises :class:`TooFew`."""
        began = time.monotonic()
        patience = self.first_s if self._before is None else self.again_s
        told, enough = began, None
        while self.interrupted() is None:
            usable = self._usable()
            now = time.monotonic()
            if enough is None and self._before is None and self.least <= len(usable) < self.most and self.more_s:
                self.say(
                    f"{len(usable)} of up to {count(self.most, 'node')} came, which is enough: waiting up to "
                    f"{duration(self.more_s)} for more (--wait-for-more)"
                )
            enough = (enough or now) if len(usable) >= self.least else None
            if enough is not None and self._is_complete(usable, now - enough) and not self._must_wait(now):
                return self._chosen(usable)
            self._let_in(now - began > MORE_S and enough is None)
            if len(usable) < self.least and (why := self._why_not()):
                absent = any(isinstance(each, NotThere) for each in self.tend())
                raise TooFew(why, refused=bool(self.leader.refused), absent=absent)
            if now - began > patience and enough is None:
                raise TooFew(self._who_is_missing(patience))
            if now - told > TELL_S:
                told = now
                self._tell(usable)
            self.leader.wait(0.1)
        return None

    def failed(self, failure: Failure) -> None:
        """An attempt ended because of hosts. A host with two such failures is left out from now on."""
        self.failures.append(failure)
        for each in excluded(self.failures):
            if each.host not in self._left_out:
                self._left_out[each.host] = each
                self.say(each.words)

    def spares(self, nodes: Collection[int]) -> list[int]:
        """Who could take part besides these."""
        return [node for node in self._usable() if node not in nodes]

    def leave(self, node: int, by: str, why: str) -> None:
        """The engine takes this node away soon: all ranks save their work now, and go on without it."""
        self.taken_out.add(self.leader.host(node))
        self.leader.report(Leaving(node, by, why))

    def _usable(self) -> list[int]:
        present = [node for node in self.leader.present() if self.leader.host(node) not in self.taken_out]
        return [node for node in present if self._needed or self.leader.host(node) not in self._left_out]

    def _is_complete(self, usable: list[int], since_s: float) -> bool:
        """Whether all are here who can be expected soon. ``since_s``: for how long there have been enough."""
        if self._before is None:
            if all(node in usable for node in range(self.most)):
                return True
            # the first hosts of the list take part, not those that happen to be there first
            new = self.leader.newest_attempt == NEVER  # a leader that took over has lost the one before it
            return since_s >= (IN_ORDER_S if new and len(usable) >= self.most and not self.tend() else self.more_s)
        if since_s >= MORE_S:
            return True
        # A node that still ends its ranks keeps its place, however many spares there are.
        return not any(self._may_come(node) for node in self._before if node not in usable)

    def _may_come(self, node: int) -> bool:
        """Whether a node that is not here was heard of a moment ago."""
        member = self.leader.member(node)
        host = self.leader.host(node)
        left_out = host in self.taken_out or (host in self._left_out and not self._needed)
        return member is not None and not left_out and clock() - member.heard < self.leader.safe_s

    def _let_in(self, are_too_few: bool) -> None:
        """There are not enough nodes without the hosts that were left out."""
        here = [node for node in self.leader.present() if self.leader.host(node) in self._left_out]
        if are_too_few and here and not self._needed:
            self._needed = True
            self.say(f"there are too few nodes without {self._named(here)}: it takes part again")

    def _must_wait(self, now: float) -> bool:
        """Whether an earlier attempt may still run somewhere. What an earlier leader has started is ended."""
        must = bool(self.leader.blocking())
        if must and now > self._ask_again:
            self._ask_again = now + END_S
            self.leader.end_others()
        return must

    def _why_not(self) -> str | None:
        """Why there will not be enough nodes at the start, if that is known."""
        trouble = [*self.leader.refused, *self.tend()]
        if self._before is None and trouble and self.leader.nodes - len(trouble) < self.least:
            return "; ".join(trouble[:4])
        return None

    def _chosen(self, usable: list[int]) -> list[NodePlace]:
        """Those that took part before, in their places, then spares."""
        here = {node: self.leader.host(node) for node in usable}
        first = self.leader.member(usable[0])
        world = next_world(
            self._before or (),
            here,
            least=self.least,
            most=self.most,
            per_node=first.hello.per_node if first is not None else None,
            names=self.took_part,
        )
        for words in world.words:
            self.say(words)
        chosen = list(world.nodes)
        late = [node for node in range(len(chosen)) if node not in chosen] if self._before is None else []
        if late and max(chosen) >= len(chosen):
            instead = self._named([node for node in chosen if node >= len(chosen)])
            self.say(f"{listing([f'node {node}' for node in late])} did not come in time: {instead} takes part instead")
        self._before = chosen
        self.took_part.update({node: here[node] for node in chosen})
        self.tell_spares([node for node in usable if node not in chosen])
        found = []
        for node in chosen:
            member = self.leader.member(node)
            assert member is not None
            hello = member.hello
            found.append(
                NodePlace(node=node, machine=hello.host, address=self.leader.address(node), ranks=hello.per_node or 1)
            )
        return found

    def tell_spares(self, spares: list[int]) -> None:
        """Once for each change."""
        if spares != self._spares:
            self._spares = spares
            self.say(f"spare: {self._named(spares)}" if spares else "no spare node is left")

    def _named(self, nodes: list[int]) -> str:
        return listing([self.leader.host(node) for node in nodes])

    def _tell(self, usable: list[int]) -> None:
        blocking = self.leader.blocking()
        if len(usable) < self.least:
            missing = [f"node {node}" for node in self.leader.missing()[:8]]
            self.say(f"waiting for nodes: {len(usable)} of {self.least} are here, missing: {listing(missing)}")
        elif blocking:
            what = "of the last attempt" if self._before is not None else "that an earlier leader may have started"
            self.say(
                f"waiting up to {duration(max(blocking.values()))} until nothing {what} can run on "
                f"{self._named(sorted(blocking))}"
            )

    def _who_is_missing(self, patience: float) -> str:
        usable = self._usable()
        missing = [node for node in self._before or range(self.most) if node not in usable]
        who = listing([self.leader.host(node) for node in missing[:8]])
        fewer = (
            f"; --nodes {len(usable)}:{self.most} would go on without" if usable and self._before is not None else ""
        )
        return (
            f"only {count(len(usable), 'node')} of {self.least} came within {duration(patience)}; missing: {who}{fewer}"
        )
