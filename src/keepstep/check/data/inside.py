# SPDX-License-Identifier: Apache-2.0
"""Files are opened only inside the path that was given. A link that leads out of it is followed only with --follow."""

from __future__ import annotations

import errno
import os
from functools import cache
from typing import BinaryIO

from keepstep.base.safe_files import open_regular
from keepstep.check.data.units import DataUnit
from keepstep.sources.files.inside_given import is_inside, place_of

LEADS_OUT = "a link out of the folder; --follow reads it"


class LeadsOut(OSError):
    """It is not inside what was given."""

    def __init__(self) -> None:
        super().__init__(errno.EXDEV, LEADS_OUT)


def leads_out(path: str, root: str) -> bool:
    """Whether a path leads out of what was given, once its links are followed."""
    return not is_inside(os.path.realpath(path), (_real(root),))


def open_inside(path: str, unit: DataUnit) -> BinaryIO:
    """A regular file of a unit, open for reading. ``LeadsOut`` if it is elsewhere; never waits for a pipe."""
    stream = open_regular(path)
    if unit.root and not unit.follow and not is_inside(place_of(stream.fileno(), path), (_real(unit.root),)):
        stream.close()
        raise LeadsOut
    return stream


@cache
def _real(root: str) -> str:
    return os.path.realpath(root)
