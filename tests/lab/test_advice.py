# SPDX-License-Identifier: Apache-2.0
"""What a fix is for is told by its words, and what is left of it in a run of another framework.

test_recordings.py holds that no recording gets advice for another framework.
"""

from __future__ import annotations

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.guard import WorldFormed
from keepstep.model.finding import Confidence, Finding, Fix, Severity, Standing
from keepstep.story.frameworks import is_for, without_advice_for_others


def test_what_a_fix_is_for_is_told_by_its_words() -> None:
    assert is_for(Fix(do="see which", command="TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun train.py")) == {"torch"}
    assert is_for(Fix(do="use the loop of tf.distribute")) == {"tensorflow"}
    assert is_for(Fix(do="join first", command="jax.distributed.initialize()")) == {"jax"}
    assert is_for(Fix(do="free the port", command="ss -ltnp")) == frozenset()
    assert is_for(Fix(do="load faster", command="DataLoader(..., num_workers=8)")) == {"torch"}


def test_of_a_fix_whose_command_alone_is_for_another_framework_the_words_stay() -> None:
    seen = EvidenceSet(
        (Evidence(fact=WorldFormed(size=2, framework="jax"), origin=Origin(source="rank0.notes.jsonl")),)
    )
    made = Finding(
        rule="DAT201",
        cause=Cause.DATA_SHAPE_MISMATCH,
        title="batches differ",
        because="their shapes do",
        evidence=seen.items,
        ranks=(1,),
        confidence=Confidence.ESTABLISHED,
        severity=Severity.FATAL,
        standing=Standing.MECHANISM,
        fixes=(
            Fix(do="make all batches equally large", command="DataLoader(..., drop_last=True)"),
            Fix(do="with tf.data", command="dataset.batch(n)"),
        ),
    )
    assert without_advice_for_others(made, seen).fixes == (Fix(do="make all batches equally large"),)
