# SPDX-License-Identifier: Apache-2.0
import jax
import numpy as np


class Feed:
    def __init__(self, path, batch, sharding):
        rows = np.load(path)
        self.rows = rows[jax.process_index() :: jax.process_count()]
        self.batch = batch // jax.process_count()
        self.sharding = sharding

    def __iter__(self):
        for start in range(0, len(self.rows) - self.batch, self.batch):
            local = self.rows[start : start + self.batch]
            yield jax.device_put(local, self.sharding)  # BUG COD310
