# SPDX-License-Identifier: Apache-2.0
"""Through what all ranks ask each other, whether the guard is on or off."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.errors import OutOfStep
from keepstep.guard import own_rank
from keepstep.guard.exchange import Exchange, SharedFolder, key_of

if TYPE_CHECKING:
    from keepstep.guard.session import Session


@dataclass(frozen=True)
class Channel:
    """This rank, and what it talks to the others through."""

    exchange: Exchange
    who: own_rank.Identity

    @property
    def rank(self) -> int:
        return self.who.rank or 0

    @property
    def world(self) -> int:
        return self.who.world or 1

    def key(self, topic: str, rank: int) -> str:
        return key_of(self.who, topic, rank)


def find(session: Session | None, call: str) -> Channel | None:
    """None where this process trains alone. Raises OutOfStep where the others cannot be asked, naming the ``call``."""
    who = session.who if session is not None else own_rank.of_environment()
    exchange = session.exchange if session is not None else _without_guard(who)
    if (who.world or 1) < 2:
        return None
    if exchange is None or who.rank is None:
        raise OutOfStep(
            f"{call}: this is one of {who.world} ranks, and they have no way to ask each other yet",
            hint="call it after init_process_group, jax.distributed.initialize or MultiWorkerMirroredStrategy, or "
            "start the ranks with `keepstep run`",
        )
    return Channel(exchange, who)


def _without_guard(who: own_rank.Identity) -> Exchange | None:
    """With ``KEEPSTEP=off``, the supervisor's folder or the key-value service of a framework that is in use."""
    if os.environ.get("KEEPSTEP_EXCHANGE"):
        return SharedFolder(Path(os.environ["KEEPSTEP_EXCHANGE"]))
    from keepstep.guard.adapters import bare_exchanges

    for name, find_in in bare_exchanges.FRAMEWORKS.items():
        found = find_in(sys.modules[name]) if name in sys.modules else None
        if found is not None:
            exchange, who.rank, who.world = found
            return exchange
    return None
