# SPDX-License-Identifier: Apache-2.0
"""FRW001: the framework does not support what was combined."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.finding import Fix, Found, Standing
from keepstep.core.rule import rule
from keepstep.core.wording import shorten
from keepstep.rules.data.lookup import FALLOUT, lasting


@rule(
    id="FRW001",
    cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION,
    needs=(UnsupportedCombination,),
    standing=Standing.EXCEPTION,
    explains=FALLOUT,
)
def unsupported_combination(seen: EvidenceSet) -> Iterator[Found]:
    """The framework does not support what was combined.

    ## What it looks like
    `is not supported with`, `is incompatible with`, `no support for ... in ... process group`, or a per-replica
    value that Keras 3 tries to turn into one tensor under a multi-worker strategy.

    ## Why it happens
    Two features that each work alone were never made to work together in this release.

    ## How we know
    The framework refuses the combination in so many words, or the message is one that only it gives.

    ## What to do
    Use one of the two, another backend or strategy, or the release that supports both. Under
    MultiWorkerMirroredStrategy, use `tf_keras` instead of Keras 3.

    ## When this is wrong
    A per-replica value is also refused when a program's own code uses it outside of `strategy.run`.
    """
    found = lasting(seen, UnsupportedCombination)
    if not found:
        return
    what = found[0].fact.what
    keras = "per-replica" in what or "Strategy" in what
    yield Found(
        title="the framework does not support this combination: " + shorten(what, 90),
        because="it refused to run the two together",
        evidence=found[:6],
        fixes=(
            Fix(
                do="use Keras 2, which runs under every tf.distribute strategy",
                command="pip install tf_keras && export TF_USE_LEGACY_KERAS=1",
            ),
            Fix(do="or use the loop of tf.distribute directly, with strategy.run and strategy.reduce"),
        )
        if keras
        else (Fix(do="use one of the two, or a release whose notes say that both work together"),),
    )
