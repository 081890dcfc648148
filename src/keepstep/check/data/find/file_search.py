# SPDX-License-Identifier: Apache-2.0
"""The search for files, in a process of its own: where a file system does not answer, the search goes on without it."""

from __future__ import annotations

import json
import os
import selectors
from collections.abc import Callable
from typing import Any

from keepstep.base.wording import duration
from keepstep.base.worker_pool import LOOK_EVERY_S
from keepstep.check.data.find.mounts import MOST_SILENT, is_below, mount_of, mounts
from keepstep.check.data.find.walk import Left
from keepstep.check.data.process import WAIT_S, Reader, start
from keepstep.check.data.spool import Units
from keepstep.errors import Unavailable


def find_units(
    paths: list[str], wait_s: float = WAIT_S, tell: Callable[[int], None] = lambda found: None, *, follow: bool = False
) -> tuple[Units, list[Left]]:
    """Everything below the paths. ``tell`` is called with the number of files found, now and then."""
    search = _Search(paths, wait_s, tell, follow)
    while not search.done:
        search.go_on()
    return search.units, search.left


class _Search:
    def __init__(self, paths: list[str], wait_s: float, tell: Callable[[int], None], follow: bool) -> None:
        self._paths, self._wait_s, self._tell, self._follow = paths, wait_s, tell, follow
        self._skip: list[str] = []
        self._silent = 0
        self._at = ""
        self._path = 0
        self._mark: tuple[tuple[int, int, int], int] = ((0, 0, 0), 0)
        self.units = Units()
        self.left: list[Left] = []

    @property
    def done(self) -> bool:
        return self._path >= len(self._paths)

    def go_on(self) -> None:
        """Walk, from the path that is next, until the end or until there is no answer."""
        first, self._at = self._path, self._paths[self._path]
        worker = start()
        try:
            task = {"walk": self._paths[first:], "skip": self._skip, "follow": self._follow}
            worker.give(json.dumps(task).encode())
            with selectors.DefaultSelector() as ready:
                ready.register(worker, selectors.EVENT_READ)
                while not self.done:
                    if ready.select(LOOK_EVERY_S):
                        self._hear(worker, first)
                    elif worker.is_silent(self._wait_s):
                        self._give_up()
                        return
        finally:
            worker.end()

    def _hear(self, worker: Reader, first: int) -> None:
        said = worker.heard()
        if said is None:
            raise Unavailable("the process that lists the files ended", hint="run it again")
        for each in map(json.loads, said):
            if "path" in each:
                self._begin(first + each["path"])
            elif "at" in each:
                self._at = each["at"]
            elif "left" in each:
                kind, path, why = each["left"]
                self.left.append((kind, path, why))
            elif "found" in each:
                self._found(each["found"])
            elif "end" in each:
                self._begin(len(self._paths))

    def _begin(self, path: int) -> None:
        if path != self._path or not self._silent:
            self._path, self._silent = path, 0
            self._mark = (self.units.mark(), len(self.left))

    def _found(self, some: list[list[Any]]) -> None:
        self.units.take(some)
        self._tell(len(self.units))

    def _give_up(self) -> None:
        """Try this path again without what does not answer; a path of which that is too much is left."""
        self._silent += 1
        path = self._paths[self._path]
        place = self._dead_part(path)
        why = f"no answer for {duration(self._wait_s)}"
        if is_below(os.path.abspath(path), place) or self._silent >= MOST_SILENT:
            more = "" if self._silent < MOST_SILENT else f", {MOST_SILENT} times; the rest of it was not listed"
            self.left.append(("unreadable", path, why + more))
            self._begin(self._path + 1)
            return
        units, left = self._mark
        self.units.back_to(units)
        del self.left[left:]
        self._skip.append(place)
        self.left.append(("unreadable", place, why))
        self._mark = (units, len(self.left))

    def _dead_part(self, path: str) -> str:
        """The mount that does not answer, if it is below this path or above it, else just the file or folder."""
        known = mounts()
        dead = mount_of(self._at, known)
        return dead if dead != mount_of(path, known) else os.path.abspath(self._at)
