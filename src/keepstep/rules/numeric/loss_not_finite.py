# SPDX-License-Identifier: Apache-2.0
"""NUM202: the guard saw the loss or the weights become NaN or infinite, and where."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.model.facts import BatchOdd, FirstNonFinite, LossNotFinite, NonFinite, ReplicasNotFinite
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.numeric.nan_or_divergence import CALMER, FIND_THE_FIRST_NAN

LASTING = 10


@rule(
    id="NUM202",
    cause=Cause.NUMERIC_NAN_OR_DIVERGENCE,
    needs=(LossNotFinite, ReplicasNotFinite),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.USER_CODE_EXCEPTION, Cause.NUMERIC_PLATEAU, Cause.SYNC_REPLICA_DESYNC),
)
def loss_not_finite(seen: EvidenceSet) -> Findings:
    """The loss or the weights became NaN or infinite; the guard saw when, and, where it can, on which rank first.

    ## What it looks like
    `loss nan` on all ranks from some step on; the rank that prints first looks guilty. The run continues, but the
    model is lost.

    ## Why it happens
    A bad batch on one rank, too large a learning rate, a division by zero or a logarithm of zero, half precision that
    overflows. The next all-reduce spreads one rank's NaN to the weights of all ranks.

    ## How we know
    The guard reads the loss without waiting for it. Where each rank has its own loss, the rank whose loss was NaN a
    step before the others was the first. In PyTorch the graph that autograd keeps for the backward pass also shows
    which operation gave the first such value, after which layer; a copy of the process computes the loss once more
    and shows its line.

    ## What to do
    Look at that rank's batch at that step; if all ranks became NaN at once, look at the learning rate. Does it not
    happen again from the checkpoint before, with the same batches? Then it was no batch and no learning rate, but a
    device that changed a number: run `keepstep check gpu`.

    ## When this is wrong
    A step function whose output is NaN by design (a metric that is not defined yet).
    """
    told, lost = seen.all(LossNotFinite), seen.all(ReplicasNotFinite)
    if not told:
        yield _only_weights(lost)
        return
    named, step = _began(told)
    batches = _bad_batches(seen, named, step)
    by_batch = bool(batches)
    if by_batch and not named:  # one loss over all ranks: only the batch shows where it came from
        named = tuple(sorted({e.who for e in batches if e.who is not None}))
        step = min((e.fact.step for e in batches if e.fact.step is not None), default=step)
    lasting = any(e.fact.times is None or e.fact.times >= LASTING for e in told) or any(
        e.fact.fatal for e in seen.all(NonFinite)
    )
    origins = [e for e in seen.all(FirstNonFinite) if e.who in named or not named]
    when = f" {'in' if any(e.fact.own for e in told) else 'after'} step {step}" if step is not None else ""
    devices = next((e.fact.devices for e in told if e.fact.devices and (not named or e.who in named)), ())
    first = [*([say_ranks(named)] if named else []), *devices]
    where = f", from a batch of {say_ranks(named)}" if by_batch else f", first on {', '.join(first)}" if first else ""
    yield Found(
        title=f"the loss became NaN or infinite{when}{where}",
        because=_from(origins)
        + (
            f"{say_ranks(named)} got a batch with such values, and the gradients spread them to the other ranks"
            if by_batch
            else f"{say_ranks(named)} had such a loss a step before the other ranks, which got it with the gradients"
            if named
            else f"the replica on {', '.join(devices)} had such a loss a step before the others of its process"
            if devices
            else "the loss has not been finite since, and nothing shows that one rank was the first"
            if lasting
            else "the loss was finite again in the next steps, and nothing shows that one rank was the first"
        )
        + (f"; {_spread(lost[0].fact)}" if lost else ""),
        evidence=(*origins[:2], *batches[:4], *told[:8], *lost[:2]),
        ranks=named,
        severity=None if lasting else Severity.WARNING,
        fixes=(
            Fix(do=f"look at the batch of {say_ranks(named)}{when}{_fed(origins)} for NaN, empty or extreme values")
            if named
            else Fix(do=f"look at the batches of that step{_fed(origins)} for NaN, empty or extreme values"),
            *(() if any(e.fact.sure and e.fact.op for e in origins) else FIND_THE_FIRST_NAN),
            CALMER,
        ),
    )


def _only_weights(lost: Sequence[Evidence[ReplicasNotFinite]]) -> Found:
    """The loss was not seen, but what the replicas hold."""
    fact = lost[0].fact
    return Found(
        title=f"the weights became NaN or infinite between step {fact.finite_at} and step {fact.step}",
        because=f"{_spread(fact)}; an exchange spread it before the guards looked, so no rank can be named",
        evidence=tuple(lost[:4]),
        fixes=(
            Fix(
                do=f"go back to a checkpoint from before step {fact.finite_at}; if it does not happen again with the "
                "same batches, a device changed a number: run keepstep check gpu",
                code='path = keepstep.latest_good("ckpt/")',
            ),
            *FIND_THE_FIRST_NAN,
            CALMER,
        ),
    )


def _spread(fact: ReplicasNotFinite) -> str:
    of = f" of {fact.of}" if fact.of else ""
    return (
        f"{fact.tensors}{of} tensors are not finite at step {fact.step}, the same in all {fact.replicas} replicas, "
        f"and most were at step {fact.finite_at}"
    )


def _fed(origins: Sequence[Evidence[FirstNonFinite]]) -> str:
    return next((f" ({e.fact.batch})" for e in origins if e.fact.batch), "")


def _from(origins: Sequence[Evidence[FirstNonFinite]]) -> str:
    """The operation of the step that became so first."""
    if not origins:
        return ""
    fact = min(origins, key=lambda e: e.fact.step or 0).fact
    if fact.op is None:
        if fact.layer:  # the loss was still finite then
            why = "an earlier gradient was not, or an update was too large"
            return f"{fact.layer} was not finite before that step: {why}; "
        return "a batch or constant was not finite before that step; "
    at = f" at {fact.line}" if fact.line else ""
    where = f" {'in' if fact.own else 'after'} layer {fact.layer}" if fact.layer else ""
    unknown = f" (its line is not established: {fact.no_line})" if fact.no_line else ""
    likely = "" if fact.sure else "probably "
    return f"{likely}the operation {fact.op}{where}{at} gave the first such value{unknown}; "


def _bad_batches(seen: EvidenceSet, named: tuple[int, ...], step: int | None) -> list[Evidence[BatchOdd]]:
    """Batches with such values before the loss had one: those of the named ranks, or of any rank where none is."""
    return [
        e
        for e in seen.all(BatchOdd)
        if e.fact.kind == "not finite"
        and e.who is not None
        and (e.who in named or not named)
        and (step is None or (e.fact.step or 0) <= step)
    ]


def _began(told: Sequence[Evidence[LossNotFinite]]) -> tuple[tuple[int, ...], int | None]:
    """The ranks whose loss was NaN before that of others, and the step; no ranks where none was clearly first."""
    step = min((e.fact.step for e in told if e.fact.step is not None), default=None)
    own = [e for e in told if e.fact.own]
    if own and max(e.fact.world for e in own) > 1:
        first = tuple(sorted({e.who for e in own if e.fact.step == step and e.who is not None}))
        return (first if len(first) == 1 or len(first) < len({e.who for e in own}) else ()), step
    began = next((e.fact.began for e in told if e.fact.began), ())
    return (began if 0 < len(began) < max(e.fact.world for e in told) else ()), step
