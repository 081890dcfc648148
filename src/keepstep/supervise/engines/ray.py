# SPDX-License-Identifier: Apache-2.0
"""Ray: this process takes nodes in a placement group, starts an agent on each, and leads. The run ends with it.

Ray starts the agents and says which nodes it has lost or is about to lose. Agents speak to the leader over
connections of their own, because Ray needs 15 s and more to notice that a node is gone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from keepstep.base.wording import count
from keepstep.supervise.engines import ray_cluster
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.engines.ray_actor import AgentHost
from keepstep.supervise.engines.ray_cluster import RayNode, first_line
from keepstep.supervise.nodes.connection import secret as run_secret
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.secret import Secret
from keepstep.supervise.nodes.lead.rendezvous import Gathering
from keepstep.supervise.nodes.messages import NEVER
from keepstep.supervise.nodes.node_settings import FIRST_S, Station

ROUND_S = 0.5
VIEW_S = 2.0
"""Between two looks at Ray's list of nodes."""
PLACE_S = 5.0
"""For a placement with spare nodes, before it is tried with one less."""
MORE_S = 20.0
"""For more nodes than are needed: Ray takes a while to start an agent on each."""
SPARE_NODES = 1
AGAIN_S = 5.0
AGAIN_FREE_S = 60.0
"""Until a node that others use is asked for again."""
ON_IT = 0.001
"""Of what Ray calls ``node:ADDRESS``: says which node is meant, and leaves the rest to others."""
END_S = 4.0


def station(wanted: Wanted, env: Mapping[str, str], *, name: str | None = None) -> Station:
    """Of the launching process, or of the one that the actor of this name has started. Raises :class:`UserError`."""
    least, most = wanted.least_and_most()
    if wanted.resources is not None:
        ray_cluster.resources_of(wanted.resources, None, [], least)
    ray = ray_cluster.connect(env, show="--quiet" not in wanted.again[: wanted.again.index("--")])
    seen = ray_cluster.nodes(ray)
    resources = ray_cluster.resources_of(wanted.resources, wanted.per_node, seen, least)
    host = ray_cluster.own_address(ray, seen)
    agents = _Agents(
        ray=ray,
        wanted=wanted,
        run=f"ray-{secrets.token_hex(8)}",
        secret=run_secret.make(),
        resources=resources,
        least=least,
        total=most + (wanted.spare_nodes if wanted.spare_nodes is not None else SPARE_NODES),
        host=host,
        name=name,
    )
    return Station(
        run=agents.run,
        secret=agents.secret,
        node=None,
        host=socket.gethostname(),
        least=least,
        most=most,
        nodes=agents.total,
        listens=(host, None),
        per_node=wanted.per_node,
        roles=wanted.roles,
        first_s=wanted.wait_s if wanted.wait_s is not None else FIRST_S,
        more_s=wanted.more_s if wanted.more_s is not None else MORE_S,
        ready=agents.start,
        attach=agents.attach,
        tend=agents.tend,
        over=agents.end,
    )


@dataclass
class _Started:
    """One Ray actor, with the agent that it started."""

    actor: Any
    begun: Any
    ended: Any
    at: float
    on: str | None = None
    """The id of Ray's node, once it is known."""
    over: bool = False


@dataclass
class _Agents:
    """The actors, one per bundle of the placement group, and a thread that looks after them."""

    ray: Any
    wanted: Wanted
    run: str
    secret: Secret
    resources: Mapping[str, float]
    least: int
    total: int
    host: str
    name: str | None = None
    """Under which how far the run is is kept, for another leader."""
    _newest: int = NEVER
    _port: int = 0
    _gathering: Gathering | None = None
    _group: Any = None
    _count: int = 0
    """How many bundles the group has."""
    _more: tuple[Any, str, float] | None = None
    """A group for one node that Ray has got since, the node's id, and when it was asked for."""
    _groups: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """The group of each node, and its bundle there."""
    _came_later: dict[int, str] = field(default_factory=dict)
    """The nodes with a group of their own, and their ids: Ray can move no such group elsewhere."""
    _not_free: dict[str, float] = field(default_factory=dict)
    """Nodes that could not be had, and when."""
    _asked: float = 0.0
    _placed: bool = False
    _started: dict[int, _Started] = field(default_factory=dict)
    _trouble: dict[int, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _viewed: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    # --- for the leader

    def attach(self, gathering: Gathering) -> None:
        """Ray's news concern all attempts."""
        self._gathering = gathering

    def start(self, hub: Hub) -> None:
        """On all nodes that Ray gives us."""
        assert hub.address is not None
        self._port = hub.address[1]
        self._thread = threading.Thread(target=self._run, daemon=True, name="keepstep-ray")
        self._thread.start()

    def tend(self) -> list[str]:
        """Why agents are missing, in words. They are started again without being asked for."""
        return list(self._trouble.values())

    def end(self) -> None:
        """The agents were told goodbye and end; give everything back to Ray."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(END_S)
        live = [each for each in self._started.values() if each.on is not None and not each.over]
        with contextlib.suppress(Exception):  # Ray may be gone, and there is nothing more to do then
            left = self._left([each.ended for each in live])
            self._left([each.actor.end.remote() for each in live if each.ended in left])
            for each in self._started.values():
                self.ray.kill(each.actor)
            more = [self._more[0]] if self._more is not None else []
            for group in {id(group): group for group in (self._group, *more, *self._all_groups()) if group}.values():
                self.ray.util.remove_placement_group(group)
        with contextlib.suppress(Exception):
            if self.name is not None:
                ray_cluster.forget(self.name)
            self.ray.shutdown()

    def _left(self, references: list[Any]) -> list[Any]:
        """Those that are not there after a moment."""
        if not references:
            return []
        left: list[Any] = self.ray.wait(references, num_returns=len(references), timeout=END_S / 2)[1]
        return left

    # --- the thread

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._keep()
                self._place()
                if self._placed:
                    self._see_to_agents()
                    self._view()
            except Exception as error:  # whatever Ray raises: nodes that live go on, with connections of their own
                self._say_once(f"Ray: {first_line(error)}")
            self._over.wait(ROUND_S)

    def _keep(self) -> None:
        """How far the run is."""
        if self.name is None or self._gathering is None:
            return
        newest = self._gathering.leader.newest_attempt
        if newest != self._newest:
            ray_cluster.keep(self.name, {"attempt": newest, "host": socket.gethostname()})
            self._newest = newest

    def _place(self) -> None:
        """Ask for the nodes, the spare ones too; with one less if they are not free."""
        if self._placed:
            return
        now, util = time.monotonic(), self.ray.util
        if self._group is None:
            if not self._count:
                fit = ray_cluster.fitting(ray_cluster.nodes(self.ray), self.resources)
                self._count = max(self.least, min(self.total, fit))
            bundles = [dict(self.resources) for _ in range(self._count)]
            self._group = util.placement_group(bundles, strategy="STRICT_SPREAD")
            self._asked = now
        if self._group.wait(1):
            self._placed = True
            self._groups = {node: (self._group, node) for node in range(self._count)}
            self._trouble.clear()
        elif now - self._asked > PLACE_S:
            amount = ", ".join(f"{value:g} {name}" for name, value in self.resources.items())
            self._say_once(f"Ray has not {count(self._count, 'node')} with {amount} each free")
            if self._count > self.least:
                util.remove_placement_group(self._group)
                self._group, self._count = None, self._count - 1

    def _all_groups(self) -> list[Any]:
        return [group for group, _ in self._groups.values()]

    def _take_more(self, seen: list[RayNode], ours: Collection[str]) -> None:
        """A placement group never grows. So a node that Ray has got since is taken with a group of its own."""
        now, util = time.monotonic(), self.ray.util
        if self._more is not None:
            group, id_, asked = self._more
            if group.wait(0):
                node = next(each for each in range(self.total) if each not in self._groups)
                self._more, self._groups[node], self._came_later[node] = None, (group, 0), id_
            elif now - asked > PLACE_S:
                util.remove_placement_group(group)
                self._more, self._not_free[id_] = None, now
            return
        going = ray_cluster.draining()
        for each in seen if len(self._groups) < self.total else ():
            tried = each.id in self._not_free and now - self._not_free[each.id] < AGAIN_FREE_S
            is_free = each.id not in ours and each.id not in going and not tried
            if is_free and ray_cluster.fitting([each], self.resources):
                bundle = {**self.resources, f"node:{each.address}": ON_IT}
                self._more = util.placement_group([bundle], strategy="STRICT_PACK"), each.id, now
                return

    def _drop(self, dead: Collection[str]) -> None:
        """Groups of nodes that came later and are lost: nothing can run there any more."""
        for node in [node for node, id_ in self._came_later.items() if id_ in dead]:
            self.ray.util.remove_placement_group(self._groups.pop(node)[0])
            del self._came_later[node]
            self._started.pop(node, None)
            self._trouble.pop(node, None)

    def _see_to_agents(self) -> None:
        now = time.monotonic()
        for node in list(self._groups):
            each = self._started.get(node)
            if each is None or (each.over and now - each.at > AGAIN_S):
                self._begin(node)
        self._look()

    def _begin(self, node: int) -> None:
        group, bundle = self._groups[node]
        from_ray = self.ray.util.scheduling_strategies
        rest = {name: value for name, value in self.resources.items() if name not in ("CPU", "GPU")}
        options: dict[str, Any] = {
            "num_cpus": self.resources.get("CPU", 0),
            "num_gpus": self.resources.get("GPU", 0),
            "resources": rest or None,
            "max_concurrency": 4,
            "scheduling_strategy": from_ray.PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=bundle
            ),
        }
        actor = self.ray.remote(AgentHost).options(**options).remote()
        words = ["run", "--on", "ray_agent", "--nodes", str(self.total), "--node-rank", str(node), *self.wanted.again]
        brief = {"run": self.run, "secret": self.secret.reveal(), "host": self.host, "port": self._port}
        begun = actor.begin.remote(words, os.getcwd(), brief)
        self._started[node] = _Started(actor, begun, actor.wait.remote(), time.monotonic())

    def _look(self) -> None:
        """Which agents have started, and which have ended."""
        for node, each in self._started.items():
            if each.over:
                continue
            try:
                if each.on is None and self._is_there(each.begun):
                    each.on = self.ray.get(each.begun)
                    self._trouble.pop(node, None)
                if self._is_there(each.ended):
                    status, said = self.ray.get(each.ended)
                    self._ended(node, each, f"{said} (the agent ended with status {status})")
            except Exception as error:  # RayError and what the actor raised
                self._ended(node, each, first_line(error))

    def _is_there(self, reference: Any) -> bool:
        return bool(self.ray.wait([reference], timeout=0)[0])

    def _ended(self, node: int, each: _Started, why: str) -> None:
        each.over, each.at = True, time.monotonic()
        self._trouble[node] = f"node {node}: {why}"
        with contextlib.suppress(Exception):
            self.ray.kill(each.actor)  # else its resources stay taken

    # --- what Ray says about its nodes

    def _view(self) -> None:
        now = time.monotonic()
        if now - self._viewed < VIEW_S:
            return
        self._viewed = now
        ours = {each.on: node for node, each in self._started.items() if each.on is not None}
        all_ = ray_cluster.nodes(self.ray)
        self._drop([each.id for each in all_ if not each.alive])
        if len(ours) == len(self._groups):  # else it is not known which nodes are ours
            self._take_more(all_, ours)
        seen = {each.id: each for each in all_ if each.id in ours}
        for each in seen.values():
            if not each.alive:
                self._say_once(f"Ray counts {each.host} ({each.address}) as dead: {each.why}")
        for id_, until in ray_cluster.draining().items():
            if id_ in seen and seen[id_].alive:
                self._leaves(ours[id_], seen[id_], until)

    def _leaves(self, node: int, each: RayNode, until: float) -> None:
        left = f"in {max(0.0, until - time.time()):.0f} s" if until else "soon"
        key = f"draining {each.id}"
        if self._gathering is None or key in self._told:
            return
        self._told.add(key)
        self._gathering.leave(node, "Ray", f"drains {each.host}, which goes away {left}")

    def _say_once(self, text: str) -> None:
        if text not in self._told and self._gathering is not None:
            self._told.add(text)
            self._gathering.say(text)
