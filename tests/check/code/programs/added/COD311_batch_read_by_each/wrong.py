# SPDX-License-Identifier: Apache-2.0
"""Two processes that print a batch which both hold.

From: questions of people whose training fails; facts, no code
Shows: error 2 ranks jax
"""

import os

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

jax.distributed.initialize(
    os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
)
mesh = jax.make_mesh((jax.device_count(),), ("rows",))
by_rows = NamedSharding(mesh, P("rows"))

own = np.full((4, 2), jax.process_index(), dtype=np.float32)
batch = jax.make_array_from_process_local_data(by_rows, own)
whole = np.asarray(batch)  # BUG COD311
print(whole.tolist())
