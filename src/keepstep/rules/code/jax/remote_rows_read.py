# SPDX-License-Identifier: Apache-2.0
"""COD311: a process reads rows that lie on other processes."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Value, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.jax._arrays import sharding_of, starts_processes
from keepstep.rules.code.jax._jax import PARTS

_READS = ("numpy.asarray", "numpy.array", "jax.device_get")
_MAKERS = (*PARTS, "jax.make_array_from_callback", "jax.device_put")


def _made(known: ProjectFacts, read: Call, value: Value) -> Call | None:
    """The call that made the array, if it spread it over the devices of all processes."""
    found = [
        each
        for each in known.inside(read.fact.function)
        if each.fact.name == value.made and value.text in (each.fact.assigned, each.fact.text)
    ]
    if len(found) != 1 or found[0].fact.order >= read.fact.order:
        return None
    positions = {"jax.device_put": ("device", 1), "jax.make_array_from_callback": ("sharding", 1)}
    name, position = positions.get(value.made, ("sharding", 0))
    return found[0] if sharding_of(known, found[0], found[0].fact.argument(name, position)) else None


@rule(id="COD311", cause=Cause.USER_CODE_EXCEPTION, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def remote_rows_read(seen: EvidenceSet) -> Findings:
    """`np.asarray` or `jax.device_get` reads an array whose rows are spread over several processes.

    ## What it looks like
    ```python
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    def everything(rows):
        jax.distributed.initialize()
        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        sharding = NamedSharding(mesh, P("data"))
        batch = jax.make_array_from_process_local_data(sharding, rows)
        return np.asarray(batch)
    ```

    ## Why it happens
    A process reaches only its own devices. The rows on the others are not there, and JAX raises `spans
    non-addressable devices`.

    ## How we know
    The program joins several processes, and the array was made in the same function with a sharding that divides its
    rows over a mesh of all devices.

    ## What to do
    ```python
    import jax
    import numpy as np
    from jax.experimental import multihost_utils
    from jax.sharding import NamedSharding, PartitionSpec as P

    def everything(rows):
        jax.distributed.initialize()
        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        sharding = NamedSharding(mesh, P("data"))
        batch = jax.make_array_from_process_local_data(sharding, rows)
        return multihost_utils.process_allgather(batch, tiled=True)
    ```

    ## When this is wrong
    When the program is started as one process.
    """
    known = program(seen)
    for each in known.calls(*_READS):
        value = each.fact.argument("x", 0) or each.fact.argument("a", 0)
        if value is None or value.made not in _MAKERS:
            continue
        made, start = _made(known, each, value), starts_processes(known, each)
        if made is not None and start is not None:
            yield Found(
                title=f"{value.text} is read whole, and other processes hold a part of it",
                because=f"`{made.fact.text}` (line {made.origin.line}) spreads its rows over the devices of all"
                " processes; one process cannot read those of another",
                evidence=(each, made, start),
                fixes=(
                    Fix(
                        do="use jax.experimental.multihost_utils.process_allgather(x, tiled=True) on all processes, or"
                        " read x.addressable_shards"
                    ),
                ),
            )
