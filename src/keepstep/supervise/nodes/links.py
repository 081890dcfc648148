# SPDX-License-Identifier: Apache-2.0
"""Connections between agents and the leader that carry messages, and only between those who know the run's secret.

A message is one line of JSON. The leader has a :class:`Hub`; an agent has a :class:`Link`: over TLS (:func:`connect`),
over ssh's pipes (:func:`over_pipe`), or within the leader's process (:func:`pair`, ``Hub.local``). Nothing here ever
waits for the other side, and what may wait for it is bounded.
"""

from __future__ import annotations

from keepstep.supervise.nodes.dial import connect, over_pipe
from keepstep.supervise.nodes.hub import Hub
from keepstep.supervise.nodes.link import (
    CannotConnect,
    CannotListen,
    Event,
    Got,
    Link,
    LinkLost,
    Lost,
    Opened,
    Stranger,
    TurnedAway,
)
from keepstep.supervise.nodes.memory_link import pair

__all__ = [
    "CannotConnect",
    "CannotListen",
    "Event",
    "Got",
    "Hub",
    "Link",
    "LinkLost",
    "Lost",
    "Opened",
    "Stranger",
    "TurnedAway",
    "connect",
    "over_pipe",
    "pair",
]
