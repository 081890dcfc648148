# SPDX-License-Identifier: Apache-2.0
"""What is asked of Ray: to be let in, for nodes to run on, and what it knows about them. Nothing waits for long."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import socket
import threading
from collections.abc import Mapping
from typing import Any

from keepstep.base.lazy_dataclass import dataclass
from keepstep.cluster.address import read_address
from keepstep.errors import UserError

PROBE_S = 5.0
CONNECT_S = 30.0
"""Ray itself tries for minutes."""
MOST_KINDS, MOST_OF_ONE = 32, 1e9
HINT = "start it inside a cluster with `ray job submit -- keepstep run --on ray ...`, or set RAY_ADDRESS=HOST:PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """What Ray says about one of its nodes."""

    id: str
    host: str
    address: str
    alive: bool
    why: str
    """Why it is not."""
    has: Mapping[str, float]
    """Its resources, taken or not."""


def ray_module() -> Any:
    """Raises :class:`UserError` where it is not installed."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")  # ranks print the same lines, and each of them counts
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UserError(
            f"--on ray needs Ray, which cannot be imported: {error}", hint="pip install 'keepstep[ray]'"
        ) from error


def connect(env: Mapping[str, str], *, show: bool) -> Any:
    """The module ray, connected. ``show``: print here what the agents' processes print. Raises :class:`UserError`."""
    ray = ray_module()
    address = env.get("RAY_ADDRESS", "").strip() or "auto"
    if address.startswith("ray://"):
        raise UserError(
            f"RAY_ADDRESS={address[:100]}: the agents must reach this process, which a Ray client is too far away for",
            hint=HINT,
        )
    if address not in ("auto", "local"):
        _probe(address)
    failed: list[BaseException] = []

    def init() -> None:
        try:
            ray.init(address=address, log_to_driver=show, logging_level="error")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=init, daemon=True)
    thread.start()
    thread.join(CONNECT_S)
    if failed:
        raise UserError(f"Ray does not let this process in: {first_line(failed[0])}", hint=HINT) from failed[0]
    if thread.is_alive():
        raise UserError(f"no Ray cluster answered at {address} within {CONNECT_S:.0f} s", hint=HINT)
    return ray


def _probe(address: str) -> None:
    """Whether anything listens there: Ray would try for minutes."""
    found = read_address(address, 6379)
    if found.host is None or found.port is None:
        raise UserError(f"RAY_ADDRESS={address[:100]} is not HOST:PORT", hint=HINT)
    try:
        socket.create_connection((found.host, found.port), PROBE_S).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise UserError(f"no Ray cluster answers at {address}: {why}", hint=HINT) from error


def first_line(error: BaseException) -> str:
    """Of what Ray says: its errors have pages."""
    cause = getattr(error, "cause", None)
    lines = str(cause if isinstance(cause, BaseException) else error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


def nodes(ray: Any) -> list[RayNode]:
    """As Ray sees them now."""
    return [
        RayNode(
            id=str(each["NodeID"]),
            host=str(each.get("NodeManagerHostname") or each["NodeManagerAddress"]),
            address=str(each["NodeManagerAddress"]),
            alive=bool(each["Alive"]),
            why=str(each.get("DeathReasonMessage") or "it gives no reason"),
            has={str(name): float(amount) for name, amount in each.get("Resources", {}).items()},
        )
        for each in ray.nodes()
    ]


def own_address(ray: Any, seen: list[RayNode]) -> str:
    """Of the node that this process is on. Ray's own function names the head's in a driver on another node (2.60)."""
    here = str(ray.get_runtime_context().get_node_id())
    return next((each.address for each in seen if each.id == here), None) or str(ray.util.get_node_ip_address())


def draining() -> dict[str, float]:
    """The ids of the nodes that Ray is to lose soon, with the time when (0: unknown). Empty where Ray does not say.

    It has no public function for this. That of its own Ray Train is used where there is one.
    """
    with contextlib.suppress(Exception):  # a private function may be absent, or take and return anything
        state = importlib.import_module("ray._private.state").state
        return {str(node): float(at) / 1000 for node, at in state.get_draining_nodes().items()}
    return {}


def keep(key: str, said: Mapping[str, object]) -> None:
    """In Ray's own store, which lives as long as its head. Nothing is kept where this version of Ray has none."""
    with contextlib.suppress(Exception):  # a private function may be absent
        store = importlib.import_module("ray.experimental.internal_kv")
        store._internal_kv_put(f"keepstep:{key}".encode(), json.dumps(said).encode(), overwrite=True)


def kept(key: str) -> dict[str, Any]:
    """What was kept; empty if it is not known."""
    with contextlib.suppress(Exception):
        store = importlib.import_module("ray.experimental.internal_kv")
        found = json.loads(store._internal_kv_get(f"keepstep:{key}".encode())[:10_000])
        return found if isinstance(found, dict) else {}
    return {}


def forget(key: str) -> None:
    with contextlib.suppress(Exception):
        importlib.import_module("ray.experimental.internal_kv")._internal_kv_del(f"keepstep:{key}".encode())


def resources_of(text: str | None, per_node: int | None, seen: list[RayNode], least: int) -> dict[str, float]:
    """What to ask for on each node: as ``--resources`` says, else one CPU per rank, and one GPU where nodes have them.

    Raises :class:`UserError`.
    """
    if text is not None:
        return _read(text)
    ranks = float(per_node or 1)
    with_gpus = [each for each in seen if each.alive and each.has.get("GPU", 0.0) >= ranks]
    return {"CPU": ranks, "GPU": ranks} if len(with_gpus) >= least else {"CPU": ranks}


def _read(text: str) -> dict[str, float]:
    hint = """for example --resources '{"CPU": 4, "GPU": 2}'"""
    try:
        found = json.loads(text[:10_000])
    except (ValueError, RecursionError):
        raise UserError(f"--resources {text[:100]} is not JSON", hint=hint) from None
    if not isinstance(found, dict) or not found or len(found) > MOST_KINDS:
        raise UserError(f"--resources {text[:100]} is not an object with amounts", hint=hint)
    for name, amount in found.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount):
            raise UserError(f"--resources: {name[:100]} has no amount", hint=hint)
        if not 0 < amount <= MOST_OF_ONE:
            raise UserError(f"--resources: {name[:100]} must be more than 0, not {amount}", hint=hint)
    return {name: float(amount) for name, amount in found.items()}


def fitting(seen: list[RayNode], wanted: Mapping[str, float]) -> int:
    """How many nodes are large enough, if nothing else runs there."""
    return sum(
        each.alive and all(each.has.get(name, 0.0) >= amount for name, amount in wanted.items()) for each in seen
    )
