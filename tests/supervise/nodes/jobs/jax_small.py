"""A few exchanges of JAX between two hosts, with gloo, which meet as ``keepstep run`` says."""

import os

import jax

jax.config.update("jax_platforms", "cpu")
jax.distributed.initialize(initialization_timeout=60)
from jax.experimental import multihost_utils  # noqa: E402

for step in range(5):
    value = multihost_utils.process_allgather(jax.numpy.ones(1) * (jax.process_index() + 1))
    through = os.environ.get("KEEPSTEP_INTERFACE", "any interface")
    print(f"step {step}: {float(value.sum()):.0f} through {through}", flush=True)
