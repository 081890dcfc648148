# SPDX-License-Identifier: Apache-2.0
"""A run without `keepstep run`: the folder of its guards says what a manifest would."""

from __future__ import annotations

from pathlib import Path

from keepstep.store.run_folders import AttemptSaid, RunManifest
from keepstep.watch.rank_boxes import RankBox, read_boxes


def manifest_of_guards(folder: Path) -> RunManifest | None:
    """One attempt, which goes on while one of its ranks lives; None where no guard has written."""
    boxes = read_boxes(folder, whole=False)
    if not boxes:
        return None
    began, ended = min(map(_began, boxes)), None
    if not any(each.alive for each in boxes):
        ended = max(each.last for each in boxes)
    over = "finished" if all(each.ended_well for each in boxes) else "ended"
    worlds = [world for each in boxes if isinstance(world := each.box.who.get("world"), int)]
    return RunManifest(
        name=folder.resolve().name,
        command=[],
        cwd="",
        began=began,
        ranks=max([len(boxes), *worlds]),
        state="running" if ended is None else over,
        ended=ended,
        attempts=[AttemptSaid(number=0, began=began, ended=ended)],
    )


def _began(box: RankBox) -> float:
    """When its process did: the ring has dropped its first records."""
    wall = box.box.who.get("wall")
    return min(wall - box.ahead_s, box.began) if isinstance(wall, int | float) and wall > 0 else box.began
