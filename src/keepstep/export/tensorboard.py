# SPDX-License-Identifier: Apache-2.0
"""What was measured in a run as curves for TensorBoard."""

from __future__ import annotations

from pathlib import Path

from keepstep.base.safe_files import make_private, write_whole
from keepstep.export.curves import Value, curves
from keepstep.export.event_file import Scalar, event_file

LINK = "keepstep-run.txt"
"""Names the run's folder, for the tab in TensorBoard."""


def write_curves(run: Path, folder: Path) -> list[Path]:
    """Write a folder per group of ranks and per host below ``folder``; a run gives the same files each time."""
    start, groups = curves(run)
    make_private(folder)
    write_whole(folder / LINK, str(run.resolve()).encode())
    written = []
    for group, values in groups.items():
        place = folder / group.replace("/", "-").replace(" ", "-")
        make_private(place)
        path = place / f"events.out.tfevents.{int(start)}.keepstep"
        write_whole(path, b"".join(event_file(start, [_scalar(each) for each in values])))
        written.append(path)
    return written


def _scalar(each: Value) -> Scalar:
    name, unit = each.reading.name, each.reading.unit
    return Scalar(f"{name} ({unit})" if unit else name, each.at, each.step, each.value)
