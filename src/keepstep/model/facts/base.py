# SPDX-License-Identifier: Apache-2.0
"""The base of all facts."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something observed. Subclasses add what was read; absent parts are ``None``."""

    rank: int | None = None

    @property
    def of_a_part(self) -> bool:
        """Whether ``rank`` counts within a group of some of the ranks, so the writer's own rank says more."""
        return False
