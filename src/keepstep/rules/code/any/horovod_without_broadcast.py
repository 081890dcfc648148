# SPDX-License-Identifier: Apache-2.0
"""COD011: ranks of Horovod begin with weights of their own."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program

_SEEDS = ("manual_seed", "manual_seed_all", "set_seed", "set_random_seed", "seed_everything", "seed")
_OTHER_WAYS = ("roadcast", "elastic", "_state_dict", "load_weights", "load_model", "horovod.spark")


def _is_equal_otherwise(known: ProjectFacts, wrapped: Call) -> bool:
    """Whether anything near may make the ranks equal: a broadcast, equal seeds, or weights that all of them load."""
    related = known.related(wrapped)
    return bool(known.paths_near(*_OTHER_WAYS) & related or known.methods_among(wrapped, *_SEEDS))


@rule(id="COD011", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def horovod_without_broadcast(seen: EvidenceSet) -> Findings:
    """Horovod averages gradients of replicas that began with different weights.

    ## What it looks like
    ```python
    import horovod.torch as hvd
    import torch

    def train(model, loader):
        hvd.init()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    ```

    ## Why it happens
    `DistributedOptimizer` and `DistributedGradientTape` average gradients, not weights. Each rank begins with
    weights that it drew itself, and adds the same updates: the replicas stay different, and none of them is trained
    on all of the data.

    ## How we know
    No file of the program broadcasts anything, as a call, a callback or a hook. It sets no seed that would make the
    ranks draw the same, and loads no weights.

    ## What to do
    ```python
    import horovod.torch as hvd
    import torch

    def train(model, loader):
        hvd.init()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    ```

    ## When this is wrong
    When all ranks load the same weights in a way that was not seen.
    """
    known = program(seen)
    for each in known.calls("horovod.DistributedOptimizer", "horovod.DistributedGradientTape"):
        starts = known.among(each, "horovod.init")
        if not starts or _is_equal_otherwise(known, each):
            continue
        yield Found(
            title="the ranks of Horovod begin with different weights",
            because=f"hvd.init() (line {starts[0].origin.line}) starts several ranks, and {each.fact.method} averages"
            " only their gradients; no file of the program broadcasts the weights of rank 0, or sets a seed",
            evidence=(each, starts[0]),
            fixes=(
                Fix(
                    do="broadcast the weights and the optimizer's state from rank 0 before the first step",
                    code="hvd.broadcast_parameters(model.state_dict(), root_rank=0)",
                ),
            ),
        )
