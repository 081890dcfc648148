# SPDX-License-Identifier: Apache-2.0
"""A training that meets a real silent fault: psum_scatter of JAX 0.10 on CPUs gives wrong sums now and then, between
several groups at once (jax-ml/jax#40830). 24 devices of one process, in 12 groups of two, 8 MiB for each device.

All groups add up their gradients, then the two members of each group divide the sum between them: each half of the
weights is held by 12 devices. The program itself says where they differ, to compare with what the guard says.

    KEEPSTEP=on KEEPSTEP_FINGERPRINTS=1 python benchmarks/silent_jobs/psum_scatter.py STEPS
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any

GROUPS, MEMBERS, SIDE = 12, 2, 2048

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={GROUPS * MEMBERS}"
os.environ["JAX_PLATFORMS"] = "cpu"


def main(steps: int) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    jax.distributed.initialize(f"127.0.0.1:{port}", 1, 0)  # without it JAX adds up in another way, rightly
    mesh = Mesh(np.array(jax.devices()).reshape(GROUPS, MEMBERS), ("group", "member"))
    halves, rows = PartitionSpec("member"), PartitionSpec(("group", "member"))

    def update(half: Any, x: Any, y: Any) -> Any:
        whole = jax.lax.all_gather(half, "member", tiled=True)
        slope = jax.grad(lambda weights: jnp.mean((x @ weights - y) ** 2))(whole)
        slope = jax.lax.psum(slope, "group")
        return half - 0.01 * jax.lax.psum_scatter(slope, "member", tiled=True)

    step_of = jax.jit(
        jax.shard_map(update, mesh=mesh, in_specs=(halves, rows, rows), out_specs=halves, check_vma=False)
    )
    source = np.random.default_rng(0)
    weights = jax.device_put(source.normal(size=(SIDE, SIDE)).astype("float32"), NamedSharding(mesh, halves))
    wrong: set[str] = set()
    for step in range(1, steps + 1):
        batch = source.normal(size=(2, GROUPS * MEMBERS, SIDE)).astype("float32")
        x, y = (jax.device_put(each, NamedSharding(mesh, rows)) for each in batch)
        weights = jax.block_until_ready(step_of(weights, x, y))
        held: dict[str, list[tuple[str, bytes]]] = {}
        for shard in weights.addressable_shards:
            held.setdefault(str(shard.index), []).append((f"cpu:{shard.device.id}", np.asarray(shard.data).tobytes()))
        for replicas in held.values():
            usual = max({value for _, value in replicas}, key=[value for _, value in replicas].count)
            new = {name for name, value in replicas if value != usual} - wrong
            if new:
                wrong |= new
                print(f"step {step}: {', '.join(sorted(new))} differ from the other devices", flush=True)
    time.sleep(3)  # the guard's thread reads the last sums
    print(f"{steps} steps, {len(wrong)} devices went wrong", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
