# SPDX-License-Identifier: Apache-2.0
"""CKP002: a checkpoint belongs to a different model."""

from __future__ import annotations

from keepstep.model.facts import CheckpointMismatch, CheckpointUnreadable, ExceptionRaised, Fact, Phase, PhaseSeen
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    lazy_pattern,
    rule,
    shorten,
)
from keepstep.rules.asking.exceptions import lacks_a_name, ranks_told
from keepstep.rules.last_resort.words import ErrorSubject, in_words
from keepstep.rules.last_resort.words import said as said_in_words


def _only_supposed(seen: EvidenceSet, place: Evidence[CheckpointMismatch]) -> bool:
    """TensorFlow prints "most likely due to a mismatch" after every failure to restore; the original error follows."""
    boilerplate = ("mismatch between the current graph", "a Variable name or other graph key")
    return (place.fact.detail or "").startswith(boilerplate) and bool(seen.near(place, CheckpointUnreadable, after=8))


@rule(
    id="CKP002",
    cause=Cause.CHECKPOINT_MISMATCH_KEYS_SHAPES,
    needs=(CheckpointMismatch, ExceptionRaised),
    explains=(
        Cause.CHECKPOINT_CORRUPT_OR_MISSING,
        Cause.DATA_SHAPE_MISMATCH,
        Cause.USER_CODE_EXCEPTION,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
    ),
)
def mismatch_keys_shapes(seen: EvidenceSet) -> Findings:
    """A checkpoint holds different names or shapes from the model that reads it.

    ## What it looks like
    `Error(s) in loading state_dict`, `Missing key(s)`, `size mismatch for`, `Key ... not found in checkpoint`,
    `Assign requires shapes of both tensors to match`, `Layer count mismatch when loading weights`.

    ## Why it happens
    The model, vocabulary or number of classes changed; the checkpoint was saved with or without a wrapper
    (`module.`, `_orig_mod.`); it was saved by a different number of ranks or another optimizer.

    ## How we know
    The loader compares names and shapes, and lists those that differ; or it looks for a name that is not there.

    ## What to do
    Load with the configuration it was saved with, or map the names; drop the layers that are meant to differ.

    ## When this is wrong
    A loader in lenient mode prints the same lists, and training continues.
    """
    said = tuple(e for e in seen.all(CheckpointMismatch) if not seen.survived(e) and not _only_supposed(seen, e))
    lacking = tuple(e for e in seen.all(ExceptionRaised) if lacks_a_name(e.fact) and not seen.survived(e))
    differ: tuple[Evidence[Fact], ...] = said or tuple(e for e in lacking if not seen.merely_logged(e))
    if not differ:
        state = tuple(e for e in seen.all(ExceptionRaised) if _is_of_optimizer_state(e.fact) and not seen.survived(e))
        if state and _was_resumed(seen):
            yield Found(
                title="the optimizer's state from a checkpoint does not fit the parameters",
                because="a step of the optimizer found a state of another shape than its gradient; only a checkpoint "
                "that was saved with another model or number of ranks brings that about",
                evidence=state[:4],
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="resume with as many ranks as saved it, or convert the state"), *_FIXES[:1]),
            )
            return
        for raised in said_in_words(seen, ErrorSubject.CHECKPOINT)[:1]:
            yield in_words(seen, raised, "a checkpoint that does not match", _FIXES)
        return
    detail = next((e.fact.detail for e in said if e.fact.detail), None)
    if not said:
        detail = f"a loader found no {lacking[0].fact.message} in it"
    yield Found(
        title="a checkpoint did not match the model" + (f": {shorten(detail, 90)}" if detail else ""),
        because="the names or shapes that the loader found in the checkpoint differ from those of the model",
        evidence=differ,
        confidence=None if said else Confidence.SUPPORTED,
        ranks=ranks_told(seen, differ),
        fixes=_FIXES,
    )


_FIXES = (
    Fix(do="build the model with the configuration that the checkpoint was saved with"),
    Fix(do="save and load the unwrapped model", code="torch.save(model.module.state_dict(), path)"),
    Fix(
        do="load only what matches, if that is what you want",
        code="model.load_state_dict(state, strict=False)",
        safety=Safety.CHANGES_RESULTS,
    ),
)


_OF_AN_OPTIMIZER = lazy_pattern(r"/(?:torch/optim|keras/src/optimizers|optax|apex/optimizers|deepspeed/ops)/")
_SHAPES_DIFFER = lazy_pattern(r"(?i)size of tensor a|shapes?\b[^\n]{0,60}\b(?:mismatch|match|incompatible|broadcast)")


def _is_of_optimizer_state(fact: ExceptionRaised) -> bool:
    """Whether shapes differ inside an optimizer's step: its state has the parameters' shapes unless it was loaded."""
    within = any(_OF_AN_OPTIMIZER.search(frame.file or "") for frame in fact.frames)
    return within and _SHAPES_DIFFER.search(fact.message) is not None


def _was_resumed(seen: EvidenceSet) -> bool:
    return any(e.fact.phase is Phase.RESTORING for e in seen.all(PhaseSeen))
