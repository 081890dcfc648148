# SPDX-License-Identifier: Apache-2.0
"""Two processes that print a batch which both hold."""

import os

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from jax.experimental import multihost_utils

jax.distributed.initialize(
    os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
)
mesh = jax.make_mesh((jax.device_count(),), ("rows",))
by_rows = NamedSharding(mesh, P("rows"))

own = np.full((4, 2), jax.process_index(), dtype=np.float32)
batch = jax.make_array_from_process_local_data(by_rows, own)
whole = multihost_utils.process_allgather(batch, tiled=True)
print(whole.tolist())
