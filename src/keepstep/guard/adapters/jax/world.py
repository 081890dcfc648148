# SPDX-License-Identifier: Apache-2.0
"""The world that JAX forms, and messages between guards over its coordination service.

The client is JAX's own: it is made for many threads, and each call is a separate request. The only read that never
waits, in any version, is of a whole folder of keys. Nothing here makes JAX look for devices.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.jax.detect_cluster import await_coordinator
from keepstep.guard.agree.arrivals import rendezvous
from keepstep.signals.contracts import Subject

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.lockstep import Lockstep
    from keepstep.guard.protocols import Adapts, Compares

STALLED_S = 3.0
"""After this long without a step, a rank asks whether another one has left."""
LAST_WORD_S = 0.5
LAST_CALL_S = 2.0
FRESH_S = 0.002


class CoordinationService:
    """Keys of JAX's coordination service. After JAX has left it, nothing is sent or received."""

    name = "JAX's coordination service"
    overwrites = True

    def __init__(self, state: Any) -> None:
        self._state = state
        self._listed: tuple[str, float, dict[str, str]] = ("", 0.0, {})
        self._lock = threading.Lock()
        self._closed = False

    def put(self, key: str, value: str) -> None:
        with self._lock:
            client = None if self._closed else self._state.client
            if client is not None:
                client.key_value_set(key, value, allow_overwrite=True)

    def get(self, key: str) -> str | None:
        folder = key.rpartition("/")[0]
        with self._lock:
            seen, at, values = self._listed
            if seen != folder or time.monotonic() - at > FRESH_S:
                client = None if self._closed else self._state.client
                if client is None:
                    return None
                values = dict(client.key_value_dir_get(folder))
                self._listed = (folder, time.monotonic(), values)
        return values.get(key)

    def close(self) -> None:
        """JAX is about to leave its service: no call may be in progress then."""
        self._closed = True
        if self._lock.acquire(timeout=LAST_CALL_S):
            self._lock.release()


def watch(session: Adapts, distributed: Any, lockstep: Lockstep, version: str, settings: Any) -> None:
    """Hear of the world when JAX has formed it, and of its end."""
    state_class = distributed.State
    initialize, shutdown = state_class.initialize, state_class.shutdown
    services: list[CoordinationService] = []
    formed = session.guarded("JAX's world", functools.partial(_formed, session, services, lockstep, version, settings))
    left = session.guarded("JAX's world", functools.partial(_left, session, lockstep))
    meet = session.guarded("wait for JAX's coordinator", await_coordinator)
    place = session.guarded("start-up words", _meeting_place)

    @functools.wraps(initialize)
    def initialize_and_tell(self: Any, *args: Any, **kwargs: Any) -> Any:
        meet(*args, **kwargs)
        with rendezvous(session, "jax", *(place(*args, **kwargs) or (None, None, None))):
            result = initialize(self, *args, **kwargs)
        formed(self)
        return result

    @functools.wraps(shutdown)
    def tell_and_shutdown(self: Any, *args: Any, **kwargs: Any) -> Any:
        word = None
        if self.client is not None:
            word = left()
            session.leave()
            for service in services:
                service.close()
        try:
            return shutdown(self, *args, **kwargs)
        finally:
            if word is not None:  # a thread inside JAX when Python ends would abort the process
                word.join(LAST_CALL_S)

    state_class.initialize, state_class.shutdown = initialize_and_tell, tell_and_shutdown
    if distributed.global_state.client is not None:  # the script initialised JAX before it asked for the guard
        formed(distributed.global_state)


def _meeting_place(
    coordinator_address: Any = None, num_processes: Any = None, process_id: Any = None, *more: Any, **others: Any
) -> tuple[int | None, int | None, str | None]:
    """Called with the arguments of ``initialize``; the launcher's variables say what they leave out."""
    from keepstep.cluster import understand

    cluster = understand(os.environ)
    size = num_processes if num_processes is not None else cluster.size if cluster else None
    index = process_id if process_id is not None else cluster.me if cluster else None
    at = coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS") or (cluster.meeting if cluster else None)
    return size, index, at


def _formed(
    session: Adapts, services: list[CoordinationService], lockstep: Lockstep, version: str, settings: Any, state: Any
) -> None:
    size, index = int(state.num_processes), int(state.process_id)
    session.world_formed(size, index, "jax")
    if size < 2:
        return
    services.append(CoordinationService(state))
    session.use_exchange(services[-1])
    session.compare(Subject.VERSIONS, _versions(version))
    session.compare(Subject.OPTIONS, settings())
    session.pulse.every(1.0, "ranks that left", _Stall(session, lockstep).look)


def _versions(version: str) -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:2])), "jax": version}
    for name in ("jaxlib", "flax", "optax", "orbax.checkpoint", "keras"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", "?"))
    return found


def _left(session: Adapts, lockstep: Lockstep) -> threading.Thread | None:
    """Before this rank waits for the others to leave: say how far it came. Never waits long; returns its thread."""
    failed = getattr(sys, "last_value", None) is not None  # Python has printed an uncaught exception
    if not session.steps or not lockstep.sure or failed or session.is_off("words to peers"):
        return None
    told = f"{lockstep.executed}:{session.steps}"

    def say() -> None:
        session.tell_peers("left", told)
        with session.part("contracts"):
            lockstep.leave()

    word = threading.Thread(target=say, daemon=True)
    word.start()
    word.join(LAST_WORD_S)
    return word


class _Stall:
    """A rank that no longer executes anything, while another one left after fewer executions over all processes."""

    def __init__(self, session: Compares, lockstep: Lockstep) -> None:
        self._session, self._lockstep = session, lockstep
        self._executed, self._since = 0, time.monotonic()
        self._told = False
        self._next = STALLED_S

    def look(self) -> None:
        now, executed = time.monotonic(), self._lockstep.executed
        if executed != self._executed or not self._lockstep.sure:
            self._executed, self._since, self._next = executed, now, STALLED_S
        elif executed and not self._told and now - self._since > self._next:
            self._next *= 1.5
            early = {}
            for rank, word in self._session.heard("left").items():
                count, _, steps = word.partition(":")
                if count.isdecimal() and steps.isdecimal() and int(count) < executed:
                    early[rank] = int(steps)
            if early:
                self._told = True
                self._tell(early)

    def _tell(self, early: dict[int, int]) -> None:
        session, rank = self._session, self._session.who.rank or 0
        steps = session.steps
        values: dict[str, list[int]] = {f"{steps} or more": [rank]}
        for other, taken in sorted(early.items()):
            values.setdefault(str(taken), []).append(other)
        fields = {"subject": Subject.BATCHES, "ordinal": 0, "what": "steps taken", "certain": False, "before": False}
        words = "; ".join(f"rank {other} left after {taken} steps" for other, taken in sorted(early.items()))
        session.note(
            "ContractBroken",
            fields | {"values": [[value, ranks] for value, ranks in values.items()]},
            f"{words}, rank {rank} is in step {steps} or later and waits",
        )
        session.say(f"{words}, but this one goes on to step {steps} or later: it waits for ranks that are gone")
