# SPDX-License-Identifier: Apache-2.0
"""COD310: the rows of one process are put as if they were all rows."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import program
from keepstep.rules.code.jax._arrays import sharding_of, starts_processes


@rule(id="COD310", cause=Cause.DATA_SHAPE_MISMATCH, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def local_rows_as_global(seen: EvidenceSet) -> Findings:
    """`jax.device_put` gets the rows of one process, with a sharding over the devices of all processes.

    ## What it looks like
    ```python
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P

    def batch(rows):
        jax.distributed.initialize()
        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        sharding = NamedSharding(mesh, P("data"))
        mine = rows[jax.process_index() :: jax.process_count()]
        return jax.device_put(mine, sharding)
    ```

    ## Why it happens
    `device_put` takes a host's array for the whole: each process keeps the rows that its devices own and drops the
    others. What differs by process is refused, or the rows of some processes are lost without a word.

    ## How we know
    The program joins several processes, the sharding divides rows over a mesh of all devices, and what is put
    differs by process.

    ## What to do
    ```python
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P

    def batch(rows):
        jax.distributed.initialize()
        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        sharding = NamedSharding(mesh, P("data"))
        mine = rows[jax.process_index() :: jax.process_count()]
        return jax.make_array_from_process_local_data(sharding, mine)
    ```

    ## When this is wrong
    When the value is the same on all processes after all.
    """
    known = program(seen)
    for each in known.calls("jax.device_put"):
        value, target = each.fact.argument("x", 0), each.fact.argument("device", 1)
        if value is None or not value.ranked:
            continue
        sharding, start = sharding_of(known, each, target), starts_processes(known, each)
        if sharding is not None and start is not None:
            yield Found(
                title=f"{value.text} differs by process and is put as if it were the whole array",
                because=f"`{sharding.fact.text}` (line {sharding.origin.line}) spreads it over the devices of all"
                " processes, and device_put keeps only the rows that belong to this one",
                evidence=(each, sharding, start),
                fixes=(Fix(do="use jax.make_array_from_process_local_data(sharding, rows)"),),
            )
