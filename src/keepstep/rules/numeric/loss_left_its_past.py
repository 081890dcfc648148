# SPDX-License-Identifier: Apache-2.0
"""NUM206: the loss rose at once and stayed up, and a layer changed with it."""

from __future__ import annotations

from keepstep.model.facts import LeftItsPast
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule


@rule(
    id="NUM206",
    cause=Cause.NUMERIC_NAN_OR_DIVERGENCE,
    needs=(LeftItsPast,),
    severity=Severity.WARNING,
    confidence=Confidence.HYPOTHESIS,
)
def loss_left_its_past(seen: EvidenceSet) -> Findings:
    """The loss rose from one moment to the next, stays up, and a layer behaves as it never did before.

    ## What it looks like
    Nothing fails. The loss curve has a step upwards, and does not come down again.

    ## Why it happens
    A number in memory changed (a weight, the optimizer's state), a device computes wrong, the learning rate is too
    high for what the model has become, or the data changed.

    ## How we know
    The guard compares the loss, and of each group of layers the gradient norm and the update for its weights, with a
    window of the run's own past (PyTorch). It reports only a rise that lasts for 16 looks without coming down, and
    only if a layer's value left its own window at the same look. A rise that begins where the learning rate rose or a
    new epoch began is not reported.

    ## What to do
    Look at what changed at that step. If nothing in the program did, go on from a checkpoint saved before it.

    ## When this is wrong
    When the program changes its data or its loss at that step on purpose.
    """
    told = seen.all(LeftItsPast)
    returned = {each.who for each in told if each.fact.returned}
    lasting = [each for each in told if each.who not in returned]
    if not lasting:
        return
    fact = lasting[0].fact
    yield Found(
        title=f"the loss rose after step {fact.after_step} and stayed up",
        because=f"it has been about {fact.loss:.4g} since, and was {_window(fact.loss_before)} before; the {fact.what} "
        f"of {fact.layer} has been about {fact.value:.2g}, and was {_window(fact.value_before)}",
        evidence=tuple(lasting[:8]),
        fixes=(
            Fix(do=f"look at what changed at step {fact.after_step}: the data, the loss, the learning rate"),
            Fix(
                do=f"if nothing did, let the script resume from a checkpoint saved before step {fact.after_step}",
                command="keepstep check checkpoint ckpt/",
            ),
        ),
    )


def _window(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:.3g} to {bounds[1]:.3g}"
