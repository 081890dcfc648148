# SPDX-License-Identifier: Apache-2.0
"""COD127: each rank reads all of an iterable dataset."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._iterable import loaded, words_of
from keepstep.rules.code.torch._torch import DDP, FSDP, TRAINERS

_DIVIDE = ("rank", "world", "shard", "replica", "split", "part", "node")
_EVALUATION = ("val", "test", "eval", "dev", "infer", "predict")


def _wraps(known: ProjectFacts, loader: Call) -> list[Call]:
    """Where the program that the loader belongs to wraps its model."""
    near = known.near(loader)
    return [each for each in known.among(loader, DDP, FSDP) if each.origin.source in near]


@rule(
    id="COD127",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def iterable_read_by_every_rank(seen: EvidenceSet) -> Findings:
    """An IterableDataset gives the same records to every rank.

    ## What it looks like
    ```python
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, IterableDataset

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            with open(self.path) as file:
                for line in file:
                    yield line

    def train(net, path):
        model = DistributedDataParallel(net)
        for batch in DataLoader(Lines(path), batch_size=32):
            model(batch).sum().backward()
    ```

    ## Why it happens
    A loader of an IterableDataset takes no sampler, so nothing divides the records but the dataset itself. All
    ranks compute the same gradients: N ranks train as one would, at N times the cost.

    ## How we know
    The model is wrapped with DDP or FSDP. The class of the dataset is in the program, reads its source in order,
    and neither it nor what it is given says anything of ranks or shards.

    ## What to do
    ```python
    from itertools import islice

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, IterableDataset

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            with open(self.path) as file:
                for line in islice(file, dist.get_rank(), None, dist.get_world_size()):
                    yield line

    def train(net, path):
        model = DistributedDataParallel(net)
        for batch in DataLoader(Lines(path), batch_size=32):
            model(batch).sum().backward()
    ```

    ## When this is wrong
    When each rank is given a file of its own under the same name.
    """
    known = program(seen)
    for loader, owner, made in loaded(known):
        wraps = _wraps(known, loader)
        if not wraps or known.any_imports(loader, *TRAINERS):
            continue
        words = words_of(known, owner, made)
        data = loader.fact.argument("dataset", 0)
        meant = (
            f"{loader.fact.assigned} {data.text if data else ''} {loader.fact.function} {made.fact.assigned}".lower()
        )
        if any(each in words for each in _DIVIDE) or any(each in meant for each in _EVALUATION):
            continue
        if any(argument.value.ranked for argument in made.fact.arguments):
            continue
        name = owner.rpartition(".")[2]
        yield Found(
            title=f"every rank reads all of {name}",
            because=f"{wraps[0].fact.method} wraps the model (line {wraps[0].origin.line}), and {name}.__iter__ (line"
            f" {known.functions[f'{owner}.__iter__'].origin.line}) does not ask for the rank: all ranks get the same"
            " records",
            evidence=(loader, known.functions[f"{owner}.__iter__"]),
            fixes=(Fix(do="let each rank take its own part in __iter__, by rank and world size"),),
        )
