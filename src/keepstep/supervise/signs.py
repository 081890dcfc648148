# SPDX-License-Identifier: Apache-2.0
"""What one of the started processes shows: by the black boxes of the ranks in it or below it, else by its process alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keepstep.core.blackbox import Doing
from keepstep.supervise.reaper import Entry, family
from keepstep.supervise.started import Started
from keepstep.supervise.stopped import Sign
from keepstep.supervise.vitals import OpenBox, has_started, only_serve, sign_of, training_process


def signs_of(
    each: Started,
    boxes: Sequence[OpenBox],
    doings: Mapping[int, Doing | None],
    listed: dict[int, Entry],
    *,
    at: float,
    printed: int,
) -> list[Sign]:
    """A sign for every rank; for a process without a box one of its own, once it has begun; none for servers that only wait."""
    rank = each.member.rank
    tree = family(listed, [each.pid]) or {each.pid}
    own = [box for box in boxes if box.pid in tree or rank is None]
    if rank is None and only_serve(own):
        return []
    if own:
        return [
            sign_of(
                box.pid, box.rank if box.rank is not None else rank, doings.get(box.pid), listed, at=at, printed=printed
            )
            for box in own
        ]
    if rank is None and not has_started(each.pid, listed):
        return []
    stopped = next((pid for pid in sorted(tree) if pid in listed and listed[pid].state == "T"), None)
    return [sign_of(stopped or training_process(each.pid, listed), rank, None, listed, at=at, printed=printed)]
