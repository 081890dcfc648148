# SPDX-License-Identifier: Apache-2.0
"""One process of a JAX job that only tries collectives. A rank is a device here. ``python -m ... PLAN``."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from keepstep.base.launchers import JAX
from keepstep.check.collectives.child import Difference, Round, differences, plan_given, say, timed, try_all
from keepstep.check.collectives.plan import Trial, given, length, numbers, wanted


def main() -> None:
    plan = plan_given()
    if plan.devices > 1:
        flag = f"--xla_force_host_platform_device_count={plan.devices}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    jax: Any = importlib.import_module("jax")
    numpy: Any = importlib.import_module("numpy")
    jax.distributed.initialize(os.environ[JAX.meeting[0]], int(os.environ[JAX.size[0]]), int(os.environ[JAX.rank[0]]))
    devices = jax.devices()
    say(backend=devices[0].platform, world=len(devices), version=jax.__version__)
    sharding: Any = importlib.import_module("jax.sharding")
    own = {each: devices.index(each) for each in jax.local_devices()}

    def attempt(trial: Trial) -> Round | None:
        if sum(map(len, trial.groups)) < len(devices):
            return None  # a mesh has a place for every device
        if trial.operation == "broadcast":
            raise NotImplementedError("JAX has no broadcast on all platforms")
        order = [devices[rank] for group in trial.groups for rank in group]
        mesh = sharding.Mesh(numpy.array(order, dtype=object).reshape(len(trial.groups), -1), ("group", "member"))
        by_rank = sharding.PartitionSpec(("group", "member"))
        step = jax.jit(
            jax.shard_map(_collective(jax, trial), mesh=mesh, in_specs=by_rank, out_specs=by_rank, check_vma=False)
        )
        known = numbers(trial, numpy.arange(length(trial, len(devices)))).astype(numpy.int32)
        dtype = jax.numpy.dtype(trial.dtype)
        rows = [jax.device_put(given(trial, known, rank).astype(dtype)[None], here) for here, rank in own.items()]
        mine = jax.make_array_from_single_device_arrays(
            (len(devices), trial.elements), sharding.NamedSharding(mesh, by_rank), rows
        )
        want = {rank: wanted(trial, known, rank, numpy.concatenate).astype(dtype) for rank in own.values()}
        jax.block_until_ready(step(mine))

        def once() -> tuple[float, list[Difference]]:
            took, result = timed(lambda: jax.block_until_ready(step(mine)))
            found: list[Difference] = []
            for shard in result.addressable_shards:
                rank = own[shard.device]
                found += differences(numpy.asarray(shard.data)[0], want[rank], rank, numpy.flatnonzero)
            return took, found

        return once

    try_all(plan, len(devices), attempt, alone=jax.process_count() == 1)
    jax.distributed.shutdown()


def _collective(jax: Any, trial: Trial) -> Callable[[Any], Any]:
    """From one row to one row."""
    lax = jax.lax
    each: Callable[[Any], Any] = {
        "all_reduce": lambda row: lax.psum(row, "member"),
        "reduce_scatter": lambda row: lax.psum_scatter(row, "member", tiled=True),
        "all_gather": lambda row: lax.all_gather(row, "member", tiled=True),
        "all_to_all": lambda row: lax.all_to_all(row, "member", 0, 0, tiled=True),
    }[trial.operation]
    return lambda rows: each(rows[0])[None]


if __name__ == "__main__":
    main()
