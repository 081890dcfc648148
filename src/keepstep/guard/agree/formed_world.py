# SPDX-License-Identifier: Apache-2.0
"""The part of a session that knows which world the framework formed, and which one the launcher meant."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

from keepstep.guard import own_rank
from keepstep.guard.agree.shared_folder import Moving
from keepstep.guard.batches.same_batches import FedAlike


class InWorld(Moving):
    """Who this rank is, according to the framework."""

    def __init__(self, who: own_rank.Identity, env: Mapping[str, str]) -> None:
        super().__init__(who, env)
        self.framework: str | None = None
        self.data_parallel: list[Callable[[], bool]] = []
        """For each framework: whether all ranks average their gradients, so each should be fed data of its own."""
        self.fed_alike = FedAlike(self)

    @abstractmethod
    def uncovered(self, part: str, why: str) -> None: ...

    def world_formed(self, size: int, index: int | None, framework: str) -> None:
        """The framework formed a world: from now on this rank is who the framework says."""
        self.framework = framework
        if index is not None and (self.who.rank is None or size > 1):
            self.who.rank = index
        if size > 1:
            self.who.world = size
        self.open()
        with self.part("black box"):
            self.tell_who()
        self._tell_world(size, index, at_step=False)

    def trains_in(self, size: int, framework: str) -> None:
        """The first step runs, in a world of ``size``: a rank that trains alone is reported now."""
        self.framework = framework
        self._tell_world(size, None, at_step=True)
        meant = own_rank.of_environment(self._env)
        if size == 1 and (meant.world or 1) > 1:
            formed = f"{meant.said_by} means a world of {meant.world} ranks, but {framework} formed none"
            self.say(f"trains alone: {formed}; every rank trains its own model")

    def _tell_world(self, size: int, index: int | None, *, at_step: bool) -> None:
        meant = own_rank.of_environment(self._env)
        fields = {"size": size, "index": index, "meant": meant.world, "meant_by": meant.said_by}
        fields |= {"framework": self.framework, "at_step": at_step}
        when = "trains in" if at_step else "formed"
        self.note(
            "WorldFormed",
            fields,
            f"{self.framework} {when} a world of {size}; the launcher means {meant.world or 'none'}",
        )
