# SPDX-License-Identifier: Apache-2.0
"""The part of a session that moves its files to the folder that all ranks of the run share, once they have met."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from keepstep.base.exit_file import exit_file
from keepstep.guard import own_rank
from keepstep.guard.agree import run_folder
from keepstep.guard.agree.peer_messages import Peers
from keepstep.guard.companion import Watched
from keepstep.guard.ending.exit_status import ExitStatus
from keepstep.guard.exchange import Exchange
from keepstep.guard.record.notes import Notes


class Moving(Peers):
    """Where a session writes, and how that changes."""

    def __init__(self, who: own_rank.Identity, env: Mapping[str, str]) -> None:
        super().__init__(who)
        self._env = env
        self._link: Path | None = None
        self._notes: Notes | None = None
        self._exit_status: ExitStatus | None = None
        self._watched: Watched | None = None
        self._meeting: run_folder.CommonFolder | None = None

    @abstractmethod
    def tell_who(self) -> None: ...

    def use_exchange(self, exchange: Exchange) -> None:
        known = self.exchange
        super().use_exchange(exchange)
        if self.exchange is known or self.supervised or self.folder is None:
            return
        with self.part("common folder"):
            self._meeting = run_folder.CommonFolder(
                exchange, self.who, self.folder, moves="KEEPSTEP_DIR" not in self._env
            )
            if self.who.rank == 0:
                self._meeting.tell()
            self.pulse.every(0.2, "common folder", self._settle)

    def _settle(self) -> None:
        """Once rank 0 has said where all ranks write: write there, and be known as a rank of this run."""
        meeting = self._meeting
        if meeting is None or self._link is None or self._notes is None:
            return
        folder = meeting.where() if self.who.rank != 0 else self.folder
        if folder is None:
            return
        self._meeting = None
        self.who.run = meeting.run
        self._move_to(folder)
        self.tell_who()

    def _move_to(self, folder: Path) -> None:
        assert self._link is not None and self._notes is not None and self.folder is not None
        name, before = run_folder.file_name(self.who), self.folder
        link, notes = folder / f"{name}.box", folder / f"{name}.notes.jsonl"
        if link == self._link:
            return
        run_folder.move(self._notes.path, notes)
        run_folder.move(self._link, link)
        if self._exit_status is not None and self._exit_status.path.exists():
            run_folder.move(self._exit_status.path, exit_file(link))
            self._exit_status.path = exit_file(link)
        self._notes.path, self._link, self.folder = notes, link, folder
        if before != folder:
            if self._watched is not None:
                self._watched.moved(folder)
            run_folder.leave(before)
