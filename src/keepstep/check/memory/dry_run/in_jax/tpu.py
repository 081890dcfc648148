# SPDX-License-Identifier: Apache-2.0
"""What the compiler for TPUs says of a program: libtpu compiles without a TPU, for devices that are only described."""

from __future__ import annotations

import importlib.util
import os
import re
from math import prod
from typing import Any

FIRST = {"v5e": (2, 2), "v6e": (2, 2), "v5p": (2, 2, 1)}
"""The smallest set of chips that is described; larger ones double its shortest side."""
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MISSING = "the compiler for TPUs is not available on this machine: pip install libtpu, beside the JAX that trains"


def begin() -> None:
    """Before JAX is imported. Raises if there is no such compiler here."""
    if importlib.util.find_spec("libtpu") is None:
        raise RuntimeError(MISSING)
    os.environ.update(TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", TPU_LOG_DIR="disabled")
    os.environ.update(TPU_MIN_LOG_LEVEL="3", TPU_STDERR_LOG_LEVEL="3")


def needs(kind: str, traced: Any, partitions: int) -> int:
    """Bytes of one chip while the program runs, its arguments and results included, also if it does not fit."""
    import jax
    import numpy as np
    from jax._src import compiler
    from jax._src.lib import xla_client
    from jax.experimental import topologies

    shape = list(FIRST[kind])
    while prod(shape) < partitions:
        shape[shape.index(min(shape))] *= 2
    name = f"{kind}:{'x'.join(map(str, shape))}"
    chips = topologies.get_topology_desc(name, platform="tpu").devices[:partitions]
    module = traced.lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo")
    where = np.array([[each.id for each in chips]])
    options = compiler.get_compile_options(num_replicas=1, num_partitions=partitions, device_assignment=where)
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = bool(jax.config.jax_use_shardy_partitioner)
    try:
        compiled = chips[0].client.compile(module, xla_client.DeviceList(tuple(chips)), options)
    except jax.errors.JaxRuntimeError as error:
        if (too_much := needs_of(str(error))) is None:
            raise
        return too_much
    held = compiled.get_compiled_memory_stats()
    given = held.argument_size_in_bytes + held.output_size_in_bytes - held.alias_size_in_bytes
    return int(given + held.temp_size_in_bytes + held.generated_code_size_in_bytes)


def needs_of(message: str) -> int | None:
    """`Ran out of memory in memory space hbm. Used 22.00G of 15.75G hbm.`: the first of the two."""
    found = re.search(r"Used ([\d.]+)([KMGT]?) of [\d.]+[KMGT]? hbm", message)
    return int(float(found[1]) * UNITS[found[2]]) if found else None
