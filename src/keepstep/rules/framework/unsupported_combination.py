# SPDX-License-Identifier: Apache-2.0
"""FRW001: the framework does not support a combination of features."""

from __future__ import annotations

import re

from keepstep.model.facts import ExceptionRaised, UnsupportedCombination, WorldSeen
from keepstep.rules.api import (
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    lazy_pattern,
    rule,
    shorten,
)
from keepstep.rules.asking.exceptions import Raised
from keepstep.rules.asking.fallout import FALLOUT, lasting
from keepstep.rules.asking.matched_messages import recognised
from keepstep.rules.last_resort.words import ErrorSubject, in_words, said

_KERAS_3 = lazy_pattern(r"/keras/src/")
_SPLIT_VALUE = lazy_pattern(
    r"PerReplica|replica_\d|Invalid reduction dimension \S+ for input with 0 dimensions|merge_call"
)
_KERAS_FIXES = (
    Fix(
        do="use Keras 2, which runs under every tf.distribute strategy",
        command="pip install tf_keras && export TF_USE_LEGACY_KERAS=1",
    ),
    Fix(do="or write a custom tf.distribute training loop, with strategy.run and strategy.reduce"),
)


@rule(
    id="FRW001",
    cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION,
    needs=(UnsupportedCombination, ExceptionRaised),
    standing=Standing.EXCEPTION,
    explains=FALLOUT,
)
def unsupported_combination(seen: EvidenceSet) -> Findings:
    """The framework does not support a combination of features.

    ## What it looks like
    `is not supported with`, `is incompatible with`, `no support for ... in ... process group`, or a per-replica
    value that Keras 3 tries to turn into one tensor under a multi-worker strategy.

    ## Why it happens
    Two features that work alone do not work together in this release.

    ## How we know
    The framework says that it refuses the combination, or prints a message that means nothing else; or Keras 3 itself
    raised an exception that nothing else explains, under a strategy of several workers. An unrecognised message that is
    worded like a refusal gives a hypothesis.

    ## What to do
    Use one of the two, another backend or strategy, or the release that supports both. Under
    MultiWorkerMirroredStrategy, use `tf_keras` instead of Keras 3.

    ## When this is wrong
    A per-replica value is also refused when a program's own code uses it outside `strategy.run`.
    """
    found = lasting(seen, UnsupportedCombination)
    if found:
        what = found[0].fact.what
        yield Found(
            title="the framework does not support this combination: " + shorten(what, 90),
            because="the framework refused to run the two together",
            evidence=found[:6],
            fixes=_fixes(what),
        )
        return
    raised = [e for e in lasting(seen, ExceptionRaised) if _of_keras_3(seen, e)]
    if raised:
        yield Found(
            title="Keras 3 failed under a tf.distribute strategy of several workers, which it does not support",
            because="the exception came from inside Keras 3, and matches no other known failure",
            evidence=tuple(raised[:6]),
            confidence=Confidence.SUPPORTED,
            fixes=_KERAS_FIXES,
        )
        return
    for each in said(seen, ErrorSubject.REFUSAL)[:1]:
        yield in_words(seen, each, "an unsupported combination", _FIXES)


def _fixes(what: str) -> tuple[Fix, ...]:
    if "per-replica" in what or "Strategy" in what:
        return _KERAS_FIXES
    return _LOCK_FIXES if re.search(r"(?i)\block", what) else _FIXES


_LOCK_FIXES = (
    Fix(
        do="put caches and files that are locked on a local disk", command="export HF_HOME=/local/hf TMPDIR=/local/tmp"
    ),
    Fix(do="or mount the file system with its locks (nfs: nolock means this host only; Lustre: -o flock)"),
    Fix(do="HDF5 can do without, if nobody writes", command="export HDF5_USE_FILE_LOCKING=FALSE"),
)
_FIXES = (Fix(do="use only one of the two, or a release whose notes say that both work together"),)


def _of_keras_3(seen: EvidenceSet, raised: Raised) -> bool:
    """Whether Keras 3 raised this on a per-replica value, or in a run of several workers."""
    inner = raised.fact.frames[-3:]
    if not inner or not any(f.file and _KERAS_3.search(f.file.replace("\\", "/")) for f in inner):
        return False
    several = any(e.fact.role for e in seen.all(WorldSeen))
    return (several or bool(_SPLIT_VALUE.search(raised.fact.message))) and not recognised(seen, raised)
