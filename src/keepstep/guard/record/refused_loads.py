# SPDX-License-Identifier: Apache-2.0
"""Ranks that load one checkpoint together: where one refuses it, all do, before the framework's own collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keepstep.guard.exchange import key_of

if TYPE_CHECKING:
    from keepstep.guard.protocols import LoadsTogether

PART = "words about checkpoints"
LEAST_S, BYTES_PER_S = 10.0, 100e6
"""The others may still read their shares: this long, and as long as one slow disk takes for all of it."""
HEARD_S = 5.0


class RefusedLoads:
    """Of one process. All ranks ask in the same order."""

    def __init__(self, session: LoadsTogether) -> None:
        self._session = session
        self._number = 0

    def first(self, why: str, size: int) -> tuple[int, str] | None:
        """Tell the others whether this rank refuses a checkpoint of ``size`` bytes, and wait for them, within bounds.
        Returns the first rank that refuses, and why; None: nobody does."""
        self._number += 1
        own = {self._session.who.rank or 0: why}
        said = self._all("said", own, LEAST_S + size / BYTES_PER_S)
        refused = next(((rank, each) for rank, each in sorted(said.items()) if each), None)
        if refused is not None:
            self._all("heard", own, HEARD_S)  # who keeps the messages must not leave before all have read them
        return refused

    def _all(self, name: str, own: dict[int, str], patience_s: float) -> dict[int, str]:
        exchange, who = self._session.exchange, self._session.who
        found = dict(own)
        if exchange is None or who.rank is None or not who.world:
            return found
        world, topic = who.world, f"load {self._number} {name}"

        def all_told() -> bool:
            try:
                for rank in range(world):
                    if rank not in found and (text := exchange.get(key_of(who, topic, rank))) is not None:
                        found[rank] = text[1:]
            except Exception:
                return True  # whoever keeps the messages has left
            return len(found) == world

        with self._session.part(PART):
            exchange.put(key_of(who, topic, who.rank), f"={found[who.rank]}")
            self._session.await_peers(all_told, at_least=patience_s)
        return found
