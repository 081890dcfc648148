# SPDX-License-Identifier: Apache-2.0
"""Tasks that srun killed after another had failed by itself."""

from __future__ import annotations

import pytest

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.process import ProcessExited
from keepstep.rules.resource.killed_silently import killed_silently


def tasks(*ended: tuple[int, int | None, str | None]) -> EvidenceSet:
    facts = [ProcessExited(reporter="srun", rank=rank, code=code, signal=signal) for rank, code, signal in ended]
    return EvidenceSet(
        items=tuple(Evidence(fact=f, origin=Origin(source="log", line=n)) for n, f in enumerate(facts, 1))
    )


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (tasks((3, 1, None), (0, None, "SIGKILL"), (1, None, "SIGKILL")), 0),
        (tasks((3, None, "SIGKILL"), (0, 1, None)), 1),
        (tasks((3, None, "SIGKILL")), 1),
        (tasks((4, 0, None), (0, None, "SIGKILL"), (1, None, "SIGKILL")), 0),
    ],
)
def test_only_a_kill_that_came_first_is_blamed(seen, found):
    assert killed_silently.cause is Cause.RESOURCE_HOST_OOM_KILLED
    assert len(list(killed_silently.find(seen))) == found
