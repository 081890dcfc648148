# SPDX-License-Identifier: Apache-2.0
"""COD126: each worker of a loader reads all of an iterable dataset."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import program
from keepstep.rules.code.torch._iterable import loaded, words_of, workers_of


@rule(id="COD126", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def iterable_read_by_every_worker(seen: EvidenceSet) -> Findings:
    """An IterableDataset does not ask which worker it is in, and its loader has several.

    ## What it looks like
    ```python
    from torch.utils.data import DataLoader, IterableDataset

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            with open(self.path) as file:
                for line in file:
                    yield line

    def load(path):
        return DataLoader(Lines(path), batch_size=32, num_workers=4)
    ```

    ## Why it happens
    Each worker has a copy of the dataset and iterates over all of it. With four workers every record comes four
    times in an epoch, and the epoch is four times as long.

    ## How we know
    The class of the dataset is in the program. It derives from IterableDataset, reads its source in order, and
    neither it nor the loader says anything of workers.

    ## What to do
    ```python
    from itertools import islice
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            worker = get_worker_info()
            first, step = (worker.id, worker.num_workers) if worker else (0, 1)
            with open(self.path) as file:
                for line in islice(file, first, None, step):
                    yield line

    def load(path):
        return DataLoader(Lines(path), batch_size=32, num_workers=4)
    ```

    ## When this is wrong
    When the source itself hands out each record once, as a queue does.
    """
    known = program(seen)
    for loader, owner, made in loaded(known):
        workers = workers_of(known, loader)
        if workers < 2 or loader.fact.argument("worker_init_fn") is not None:
            continue
        if "worker" in words_of(known, owner, made) or known.methods_among(loader, "get_worker_info"):
            continue
        name = owner.rpartition(".")[2]
        yield Found(
            title=f"each of {workers} workers reads all of {name}",
            because=f"num_workers is {workers}, and {name}.__iter__ (line"
            f" {known.functions[f'{owner}.__iter__'].origin.line}) does not ask get_worker_info(): each record comes"
            f" {workers} times",
            evidence=(loader, known.functions[f"{owner}.__iter__"]),
            fixes=(Fix(do="let each worker take its own part: torch.utils.data.get_worker_info() tells which it is"),),
        )
