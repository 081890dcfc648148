# SPDX-License-Identifier: Apache-2.0
"""Waiting for enough nodes before an attempt: all that were asked for, or as few as the user allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from keepstep.core.wording import count, duration, listing
from keepstep.supervise.nodes.leader import Leader, Leaving
from keepstep.supervise.nodes.seating import Place, Roles

FIRST_S = 600.0
"""For the first attempt: pods and jobs do not start at once."""
AGAIN_S = 60.0
"""For a later one: a node that was lost may come back."""
MORE_S = 5.0
"""Once there are as many as needed, for the rest of those that may take part."""
TELL_S = 10.0


class TooFew(Exception):
    """There are not enough nodes; the text says which are missing and what can be done."""


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
    roles: Roles = field(default_factory=Roles)
    as_given: bool = False
    grace_s: float = 10.0
    first_s: float = FIRST_S
    again_s: float = AGAIN_S
    tend: Callable[[], list[str]] = list
    """Restarts agents that have ended; says why some are missing."""
    excluded: Collection[str] = ()
    """Hosts that take no part any more."""
    _before: list[int] | None = None

    def gather(self) -> list[Place] | None:
        """The nodes of the next attempt; None if the user ended the run meanwhile. Raises :class:`TooFew`."""
        began = time.monotonic()
        patience = self.first_s if self._before is None else self.again_s
        told, enough = began, None
        while self.interrupted() is None:
            usable = self._usable()
            now = time.monotonic()
            enough = (enough or now) if len(usable) >= self.least else None
            if enough is not None and (len(usable) >= self.most or now - enough >= MORE_S) and not self._must_wait():
                return self._chosen(usable)
            if len(usable) < self.least and (why := self._why_not()):
                raise TooFew(why)
            if now - began > patience and enough is None:
                raise TooFew(self._who_is_missing(patience))
            if now - told > TELL_S:
                told = now
                self._tell(usable)
            self.leader.wait(0.1)
        return None

    def leave(self, node: int, by: str, why: str) -> None:
        """The engine takes this node away soon: all ranks save their work now, and go on without it."""
        self.excluded = {*self.excluded, self.leader.host(node)}
        self.leader.report(Leaving(node, by, why))

    def _usable(self) -> list[int]:
        return [node for node in self.leader.present() if self.leader.host(node) not in self.excluded]

    def _must_wait(self) -> bool:
        """Whether an earlier attempt may still run somewhere."""
        return bool(self.leader.blocking())

    def _why_not(self) -> str | None:
        """Why there will not be enough nodes at the start, if that is known."""
        trouble = [*self.leader.refused, *self.tend()]
        if self._before is None and trouble and self.leader.nodes - len(trouble) < self.least:
            return "; ".join(trouble[:4])
        return None

    def _chosen(self, usable: list[int]) -> list[Place]:
        """Those that took part before, then spares; in the order of their numbers."""
        before = self._before or []
        ordered = sorted(usable, key=lambda node: (node not in before, node))
        chosen = sorted(ordered[: self.most])
        self._tell_change(chosen)
        self._before = chosen
        found = []
        for node in chosen:
            member = self.leader.member(node)
            assert member is not None
            hello = member.hello
            found.append(
                Place(node=node, machine=hello.host, address=self.leader.address(node), ranks=hello.per_node or 1)
            )
        return found

    def _tell_change(self, chosen: list[int]) -> None:
        before = self._before
        if before is None or before == chosen:
            return
        gone, new = [n for n in before if n not in chosen], [n for n in chosen if n not in before]
        parts = [f"without {self._named(gone)}"] if gone else []
        parts += [f"with {self._named(new)}"] if new else []
        words = f"the run goes on {' and '.join(parts)}: {count(len(chosen), 'node')} instead of {len(before)}"
        if len(chosen) != len(before):
            words += (
                f"; the global batch changes by a factor of {len(chosen) / len(before):.3g} unless the script fixes it"
            )
        self.say(words if len(chosen) != len(before) else f"the run goes on {' and '.join(parts)}")

    def _named(self, nodes: list[int]) -> str:
        return listing([self.leader.host(node) for node in nodes])

    def _tell(self, usable: list[int]) -> None:
        blocking = self.leader.blocking()
        if len(usable) < self.least:
            missing = [f"node {node}" for node in self.leader.missing()[:8]]
            self.say(f"waiting for nodes: {len(usable)} of {self.least} are here, missing: {listing(missing)}")
        elif blocking:
            longest = max(blocking.values())
            self.say(
                f"waiting up to {duration(longest)} until nothing of the last attempt can run on "
                f"{self._named(sorted(blocking))}"
            )

    def _who_is_missing(self, patience: float) -> str:
        usable = self._usable()
        missing = [node for node in range(max(self.most, len(usable))) if node not in usable]
        who = listing([self.leader.host(node) for node in missing[:8]])
        fewer = (
            f"; --nodes {len(usable)}:{self.most} would go on without" if usable and self._before is not None else ""
        )
        return (
            f"only {count(len(usable), 'node')} of {self.least} came within {duration(patience)}; missing: {who}{fewer}"
        )
