# SPDX-License-Identifier: Apache-2.0
"""What is looked at once an attempt has failed, and what could be done about it: of several hosts."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base.wording import listing
from keepstep.model.cause import Cause
from keepstep.model.report import Report
from keepstep.store.evidence_file import append
from keepstep.supervise.decide import remedy
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.remedy import Remedy
from keepstep.supervise.decide.transport import other_transport
from keepstep.supervise.executor import Applied
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.lead.placement import NodePlace
from keepstep.supervise.nodes.lead.rendezvous import Gathering
from keepstep.supervise.start.layout import MORE_PORTS, Layout

if TYPE_CHECKING:
    from keepstep.supervise.nodes.lead.network_look import Hosts

FAMILIES = ("network", "hardware")
FILE = "network.jsonl"


class Further:
    """Of one attempt."""

    def __init__(self, leader: Leader, number: int, folder: Path, layout: Layout, applied: Applied, cwd: Path) -> None:
        self._leader, self._number, self.folder = leader, number, folder
        self._layout, self._applied, self._cwd = layout, applied, cwd
        self._hosts: Hosts | None = None

    def look(self, report: Report, progress: AttemptProgress, nodes: Sequence[int], gathering: Gathering) -> bool:
        """The network between these nodes, once, if network or hardware is to blame. True: there is new evidence."""
        root = report.root
        if root is None or root.cause.family not in FAMILIES or self._hosts is not None or len(nodes) < 2:
            return False
        if gathering.interrupted() is not None:
            return False
        from keepstep.supervise.nodes.lead.network_look import Between, Hosts

        gathering.say(f"looking at the network between the hosts, because of {root.cause.value}")
        self._hosts = Hosts()
        with contextlib.suppress(ValueError, TypeError, KeyError, OSError):  # whatever an agent answered
            between = Between(
                self._leader,
                self._number,
                self._layout,
                variables={node: self._applied.variables_of(node) for node in nodes},
                addresses={node: self._address(node) for node in nodes},
                frameworks=progress.frameworks,
                interrupted=gathering.interrupted,
            )
            self._hosts = between.hold(nodes)
        if not self._hosts.seen:
            return False
        with contextlib.suppress(OSError):
            append(self.folder / FILE, self._hosts.seen)
        return True

    def forget(self) -> None:
        """The run went on: what the network was like then says nothing about what may stop it next."""
        self._hosts = None
        with contextlib.suppress(OSError):
            (self.folder / FILE).unlink(missing_ok=True)

    def offers(self, report: Report, progress: AttemptProgress, env: Mapping[str, str]) -> tuple[Remedy, ...]:
        """What could be done about the report's root cause."""
        found: tuple[Remedy, ...] = ()
        if report.root is not None and report.root.cause is not Cause.NETWORK_WRONG_INTERFACE:
            restored, saved = progress.restored_from, progress.saved_in
            found = remedy.offered(report, env, self._cwd, restored_from=restored, saved_in=saved)
        seats = Counter(seat.node for seat in self._layout.seats)
        if self._hosts is not None:
            from keepstep.supervise.nodes.lead.path_remedies import other_paths

            ports = {node: count + 2 * MORE_PORTS for node, count in seats.items()}
            found = (*other_paths(report, self._hosts, self._applied, ports, progress.frameworks), *found)
        if any(not each.advice_only for each in found):
            return found
        return (*found, *other_transport(report, progress.frameworks, env))

    def _address(self, node: int) -> str:
        """Where the job reaches a node."""
        seats = (seat.host for seat in self._layout.seats if seat.node == node)
        return next(seats, "") or self._leader.address(node)


def pin_newcomers(
    leader: Leader, number: int, places: Sequence[NodePlace], applied: Applied, gathering: Gathering
) -> None:
    """Nodes that were not there when an interface was pinned: find theirs, by trying all hosts once more.

    What is known of the others does not say it: interfaces have other names elsewhere.
    """
    nodes = [place.node for place in places]
    new = [node for node in nodes if node not in applied.by_node]
    if not applied.by_node or not new or len(nodes) < 2:
        return
    from keepstep.supervise.nodes.lead.network_look import Between, Hosts
    from keepstep.supervise.nodes.lead.path_remedies import pins_of

    names = listing([leader.host(node) for node in new])
    gathering.say(f"looking at the network between the hosts again: {names} takes part now, and interfaces are pinned")
    hosts = Hosts()
    with contextlib.suppress(ValueError, TypeError, KeyError, OSError):  # whatever an agent answered
        hosts = Between(
            leader,
            number,
            Layout(),
            variables={node: applied.variables_of(node) for node in nodes},
            addresses={place.node: applied.addresses.get(place.node, place.address) for place in places},
            frameworks=frozenset(),
            interrupted=gathering.interrupted,
        ).hold(nodes)
    found = pins_of(hosts)
    for node in new:
        if (pin := found.get(node)) is None:
            gathering.say(f"no interface of {leader.host(node)} is reached by all hosts: none is pinned there")
            continue
        applied.by_node[node] = dict(pin.variables)
        if pin.address is not None:
            applied.addresses[node] = pin.address
        gathering.say(f"remedy: use the interface {pin.interface} of {leader.host(node)}, which all hosts reach")
