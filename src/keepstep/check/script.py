# SPDX-License-Identifier: Apache-2.0
"""The training script, if given: read, never run."""

from __future__ import annotations

from keepstep.check.place import Collected, Place
from keepstep.parse.formats.script import read_script

LARGEST = 4 << 20


def look_at_script(place: Place) -> Collected:
    """What the script visibly uses."""
    looked = Collected()
    if place.script is None:
        return looked
    try:
        with place.script.open("rb") as file:
            text = file.read(LARGEST).decode("utf-8", "replace")
    except OSError as error:
        looked.unavailable(str(place.script), error.strerror or "cannot be read")
        return looked
    looked.add(place.saw(read_script(place.script.name, text), place.script.name))
    return looked
