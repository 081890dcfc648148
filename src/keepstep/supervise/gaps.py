# SPDX-License-Identifier: Apache-2.0
"""A full disk: said once, and marked in the folder, because what is missing must not be taken for health."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from keepstep.core.private_files import open_private
from keepstep.sources.files import GAPS


class Gaps:
    """What is done about them, for all attempts of a run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told = False

    def look(self, attempt: Path, are_there: bool) -> None:
        """``are_there``: something of this attempt could not be written."""
        if not are_there:
            return
        with contextlib.suppress(OSError):
            os.close(open_private(attempt / GAPS, os.O_WRONLY))  # an empty file takes no room
        if not self._told:
            self._told = True
            self._say(
                f"the disk is full: the recording in {attempt.parent} has gaps; the training itself is not affected"
            )
