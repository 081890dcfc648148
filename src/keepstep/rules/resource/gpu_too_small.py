# SPDX-License-Identifier: Apache-2.0
"""RES108: a training will not fit into the device."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    Confidence,
    DeviceMemoryForecast,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    rule,
    size,
)


@rule(id="RES108", cause=Cause.RESOURCE_GPU_OOM, needs=(DeviceMemoryForecast,))
def gpu_too_small(seen: EvidenceSet) -> Findings:
    """The training needs more memory than the device has.

    ## What it looks like
    `keepstep check memory` ran the script on tensors without content. Even the lower end of its forecast is more
    than the device has. The run itself would end with `CUDA out of memory`.

    ## Why it happens
    Parameters, gradients, the optimizer's state and the activations of one rank are too much, or one tensor has a shape
    that nobody meant.

    ## How we know
    Every tensor that the script would hold on the device was counted, from its making to its end, by the rules of
    PyTorch's allocator.

    ## What to do
    Look at the largest part of the table. Activations shrink with the batch and with checkpointing; parameters,
    gradients and state shrink when they are sharded.

    ## When this is wrong
    When the script behaves differently on real values, or when a compiler saves what the script would hold.
    """
    for each in seen.all(DeviceMemoryForecast):
        fact = each.fact
        if fact.earlier or fact.low <= fact.total:
            continue
        parts = dict(fact.parts)
        asked = f", where {size(fact.asked)} more are asked for" if fact.asked else ""
        at = f"it would be full at {fact.line}{asked}" if fact.line else "the device would be full"
        yield Found(
            title=f"the training needs at least {size(fact.low)}, and {fact.device} has {size(fact.total)}",
            because=at,
            evidence=(each,),
            confidence=Confidence.SUPPORTED,
            fixes=tuple(_fixes(fact, parts)),
        )


def _fixes(fact: DeviceMemoryForecast, parts: dict[str, int]) -> list[Fix]:
    """For the largest part first."""
    state = sum(parts.get(name, 0) for name in ("parameters", "gradients", "optimizer state"))
    if fact.asked is not None and fact.asked > fact.total:
        return [Fix(do="check the shape of the tensor that this line makes: alone it is larger than the device")]
    if fact.remedies or fact.largest_batch:
        return _tried(fact)
    if fact.framework == "jax":
        return _of_jax(parts)
    if fact.framework == "tensorflow":
        return list(OF_TENSORFLOW)
    shard = Fix(do="shard parameters, gradients and optimizer state over the ranks (`fully_shard`), or offload them")
    smaller = [
        Fix(do="checkpoint activations (`torch.utils.checkpoint`)"),
        Fix(
            do="reduce the batch per device, and accumulate gradients to keep the effective batch size",
            safety=Safety.CHANGES_RESULTS,
        ),
    ]
    return [shard, *smaller] if state > parts.get("activations", 0) else [*smaller, shard]


OF_TENSORFLOW = (
    Fix(do="reduce the batch per replica", safety=Safety.CHANGES_RESULTS),
    Fix(do="compute in half precision", code='keras.mixed_precision.set_global_policy("mixed_bfloat16")'),
    Fix(do="recompute activations in the backward pass (`tf.recompute_grad`)"),
)


def _tried(fact: DeviceMemoryForecast) -> list[Fix]:
    """What was found to suffice alone; else what helps most."""
    found = [each for each in fact.remedies if each[1] <= fact.total]
    short = "" if found else "; alone it may not be enough"
    fixes = [_fix(what, f"needs at most {size(high)}{short}") for what, high in (found or fact.remedies[:2])[:4]]
    if fact.largest_batch:
        do = f"use a batch of at most {fact.largest_batch} per device"
        fixes.append(Fix(do=f"{do} (now {fact.batch})", safety=Safety.CHANGES_RESULTS))
    return fixes


def _fix(what: str, needs: str) -> Fix:
    changes = any(word in what for word in ("bfloat16", "8 bits", "SGD"))
    return Fix(do=f"{what} ({needs})", safety=Safety.CHANGES_RESULTS if changes else Safety.SAFE)


def _of_jax(parts: dict[str, int]) -> list[Fix]:
    held = Fix(do="shard the training state over a mesh (`NamedSharding`), and donate it (`donate_argnums`)")
    inside = Fix(do="recompute activations in the backward pass (`jax.checkpoint`), or reduce the batch per device")
    more = Fix(do="let JAX take more of the device", command="export XLA_PYTHON_CLIENT_MEM_FRACTION=0.95")
    return [inside, held, more] if parts.get("temporaries", 0) > parts.get("arrays held", 0) else [held, inside, more]
