# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from keepstep.model.facts.network import RendezvousTimeout
from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.tools.jax import coordination_service


def test_all_tasks_that_were_late_at_a_barrier_are_read() -> None:
    first = "Barrier end_of_eval timed out. Timed out task names:"
    late, match = next((b, m) for b in coordination_service.BLOCKS if (m := b.begin.pattern.search(first)))
    names = [f"/job:worker/replica:0/task:{n}" for n in (1, 3, 2)]
    assert list(late.read(match, iter([*names, "Traceback"]))) == [
        RanksMissing(missing=(1, 3, 2), what="barrier end_of_eval")
    ]


def test_tasks_that_were_late_at_the_start_never_connected() -> None:
    """No rank is missing from a collective yet, and the list below has more names than its first line."""
    text = (
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. "
        "Timed out task names:\n/job:jax_worker/replica:0/task:1\n/job:jax_worker/replica:0/task:6"
    )
    made = [each.make(found) for each in coordination_service.SIGNATURES if (found := each.pattern.search(text))]
    assert {type(fact) for fact in made} == {RendezvousTimeout}
