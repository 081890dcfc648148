# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.tools.jax import coordination_service


def test_all_tasks_that_were_late_at_a_barrier_are_read() -> None:
    first = "Barrier end_of_eval timed out. Timed out task names:"
    late, match = next((b, m) for b in coordination_service.BLOCKS if (m := b.begin.pattern.search(first)))
    names = [f"/job:worker/replica:0/task:{n}" for n in (1, 3, 2)]
    assert list(late.read(match, iter([*names, "Traceback"]))) == [
        RanksMissing(missing=(1, 3, 2), what="barrier end_of_eval")
    ]
