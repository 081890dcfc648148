# SPDX-License-Identifier: Apache-2.0
"""COD103: every rank is fed the same data."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._iterable import start_of
from keepstep.rules.code.torch._torch import LOADER, SAMPLER, wraps_with_ddp

_OWN_ORDER = ("RandomSampler", "WeightedRandomSampler", "SequentialSampler", "SubsetRandomSampler")
_SPLITS = ("split_dataset_by_node", "split_by_node", "get_worker_info", "shard")
_EVALUATION = ("val", "test", "eval", "dev", "infer", "predict", "calib", "bench")


def _gives_all(loader: Call) -> bool:
    """Whether neither the loader's sampler nor its data knows about ranks."""
    given = {each.name: each.value for each in loader.fact.arguments}
    if "batch_sampler" in given or "**" in given or any(value.ranked for value in given.values()):
        return False
    sampler = loader.fact.argument("sampler", 3)
    return sampler is None or sampler.literal == "None" or sampler.made.rpartition(".")[2] in _OWN_ORDER


def _is_for_evaluation(loader: Call) -> bool:
    data = loader.fact.argument("dataset", 0)
    words = f"{loader.fact.assigned} {data.text if data else ''} {loader.fact.function}".lower()
    return any(each in words for each in _EVALUATION)


def _splits(known: ProjectFacts, loader: Call) -> bool:
    """Whether anything else in the program hands out data by rank."""
    related = known.related(loader)
    if any(
        each.fact.name.rpartition(".")[2].endswith("Sampler") and "istributed" in each.fact.name
        for path in related
        for each in known.in_path(path)
    ):
        return True
    if known.among(loader, SAMPLER) or known.methods_among(loader, *_SPLITS):
        return True
    data = loader.fact.argument("dataset", 0)
    if data is not None and start_of(known, data) is not None:
        return True  # it takes no sampler: COD127 asks what the dataset itself does
    makers = [
        each for path in related for each in known.in_path(path) if data is not None and each.fact.name == data.made
    ]
    return any(argument.value.ranked for each in makers for argument in each.fact.arguments) or data is None


@rule(
    id="COD103",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def no_distributed_sampler(seen: EvidenceSet) -> Findings:
    """A model is wrapped with DDP, and its DataLoader gives every rank all of the data.

    ## What it looks like
    ```python
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    def train(net, data):
        model = DistributedDataParallel(net)
        loader = DataLoader(data, batch_size=32, shuffle=True)
        for batch in loader:
            model(batch).sum().backward()
    ```

    ## Why it happens
    Without a DistributedSampler each rank goes through the whole dataset: an epoch does N times the work, and with
    equal seeds all ranks compute the same gradient.

    ## How we know
    The program wraps a model with DDP, and neither a DistributedSampler nor anything else in it splits data by
    rank.

    ## What to do
    ```python
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler

    def train(net, data):
        model = DistributedDataParallel(net)
        loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
        for batch in loader:
            model(batch).sum().backward()
    ```

    ## When this is wrong
    When the dataset itself gives each rank its own part, or every rank is meant to see everything with another
    seed.
    """
    known = program(seen)
    for each in known.calls(LOADER):
        if not wraps_with_ddp(known, each) or _is_for_evaluation(each) or not _gives_all(each):
            continue
        if _splits(known, each):
            continue
        yield Found(
            title="every rank is fed all of the data: the DataLoader has no DistributedSampler",
            because="the model is wrapped with DDP, but nothing in the program splits the data by rank",
            evidence=(each,),
            fixes=(Fix(do="give the loader sampler=DistributedSampler(dataset), and leave out shuffle=True"),),
        )
