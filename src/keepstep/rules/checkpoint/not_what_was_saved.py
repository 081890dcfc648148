# SPDX-License-Identifier: Apache-2.0
"""CKP004: a checkpoint is not what was saved."""

from __future__ import annotations

import shlex

from keepstep.model.facts import CheckpointDamaged
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule, shorten

SAVED_AGAIN = Fix(do="if you saved it without the guard, load it; the next save with the guard records it")


@rule(id="CKP004", cause=Cause.CHECKPOINT_CORRUPT_OR_MISSING, needs=(CheckpointDamaged,))
def not_what_was_saved(seen: EvidenceSet) -> Findings:
    """A checkpoint differs from what the training saved, a part of it is missing, or its numbers may be wrong.

    ## What it looks like
    Often nothing: most formats load a flipped bit without a word. The guard says `the checkpoint ... is damaged`, and
    `keepstep check checkpoint` names the file.

    ## Why it happens
    A disk, a network or memory damaged it after the save; a copy was cut off; the run was killed while it saved; shards
    of two saves were mixed. Or it was saved after the replicas of the model had begun to differ (NUM204).

    ## How we know
    The guard recorded a sum of every file when it was saved. The sums of today differ, and the file's time of last
    change is still that of the save, or so little differs that no later save wrote it; or a save was begun and never
    finished.

    ## What to do
    Resume from the newest good checkpoint. Look at the disk or the memory of the host that held it.

    ## When this is wrong
    If a program without the guard rewrote the file and put its old time back.
    """
    for damaged in seen.groups(CheckpointDamaged, by=lambda fact: fact.path):
        fact = damaged[0].fact
        folder = shlex.quote(fact.path.rpartition("/")[0] or ".")
        saved = f", saved at step {fact.step}," if fact.step is not None else ""
        what = f"{'was' if fact.state == 'changed' else 'is'} {fact.state}"
        see = Fix(do="see which checkpoints are good", command=f"keepstep check checkpoint {folder}")
        yield Found(
            title=f"the checkpoint {shorten(fact.path, 60)}{saved} {what}",
            because=fact.why,
            evidence=damaged,
            confidence=None if fact.certain else Confidence.HYPOTHESIS,
            fixes=(
                *((see,) if fact.loaded else ()),
                *((SAVED_AGAIN,) if fact.state == "changed" else ()),
                Fix(
                    do="let the script resume from the newest good one",
                    code=f"path = keepstep.latest_good({fact.path.rpartition('/')[0] or '.'!r})",
                ),
            ),
        )
