# SPDX-License-Identifier: Apache-2.0
"""Which machine a node of an attempt is, in the attempt's folder, for whoever reads it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from keepstep.supervise.nodes.evidence.parcels import write_node
from keepstep.supervise.start.layout import Layout

CLOCKS_S = 1.0
"""Clocks that differ by less count as the same: a hello takes a while to arrive."""


def describe(folder: Path, node: int, layout: Layout, *, host: str, address: str, ahead_s: float) -> None:
    """Write it, if there is room. ``ahead_s``: how far its clock is ahead of the leader's."""
    seats, served = [seat for seat in layout.seats if seat.node == node], layout.servers > 0
    with contextlib.suppress(OSError):
        write_node(
            folder / f"node{node}",
            host=host,
            address=address,
            ranks=[seat.rank for seat in seats],
            serving=[seat.rank for seat in seats if not seat.member.ends_training(served=served)],
            ahead_s=round(ahead_s, 3) if abs(ahead_s) > CLOCKS_S else 0.0,
        )
