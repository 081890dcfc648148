# SPDX-License-Identifier: Apache-2.0
"""What peers on this host were in, from their black boxes: if sizes differ, gloo ends a process silently."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from keepstep.signals import blackbox
from keepstep.signals.blackbox import Kind
from keepstep.signals.box_files import open_box
from keepstep.signals.collective_history import Mismatch, unpacked

if TYPE_CHECKING:
    from keepstep.guard.protocols import World

LOOKED_AT = 200
MOST_BOXES = 256


def in_boxes(session: World, sequence: int, packed: int) -> Mismatch | None:
    """The mismatch with a peer whose box has another collective under the same number; None: there is none."""
    if session.folder is None or session.who.rank is None or not packed:
        return None
    values = {unpacked(packed): [session.who.rank]}
    newest: dict[int, tuple[float, int]] = {}
    for path in sorted(session.folder.glob(f"rank*-{session.who.attempt}.box"))[:MOST_BOXES]:
        name = path.name.split("-")[0].removeprefix("rank")
        if not name.isdecimal() or int(name) == session.who.rank:
            continue
        try:
            with open_box(path) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                who = blackbox.identity(data)
                found = _at(data, sequence)
        except (OSError, ValueError):
            continue
        began = float(who.get("wall") or 0.0)
        if found and began > newest.get(int(name), (0.0, 0))[0]:
            newest[int(name)] = (began, found)
    for rank, (_, found) in newest.items():
        values.setdefault(unpacked(found), []).append(rank)
    if len(values) < 2:
        return None
    ordered = sorted(values.items(), key=lambda item: (-len(item[1]), item[1]))
    operations = {words.split(" ", 1)[0] for words in values}
    types = {words.partition(",")[0] for words in values}
    what = "operation" if len(operations) > 1 else "dtype" if len(types) > 1 else "size"
    return Mismatch(sequence, what, tuple((words, tuple(sorted(ranks))) for words, ranks in ordered))


def _at(data: mmap.mmap, sequence: int) -> int:
    """What the box says about the collective with that number; 0: nothing."""
    for seen, record in enumerate(blackbox.newest_first(data)):
        if seen >= LOOKED_AT:
            break
        if record.kind == Kind.COLLECTIVE and record.value == sequence and record.extra >> 8:
            return record.extra
    return 0
