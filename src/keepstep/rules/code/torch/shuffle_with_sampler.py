# SPDX-License-Identifier: Apache-2.0
"""COD104: a DataLoader is given a sampler and shuffle=True."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Edit, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code._edits import replaced
from keepstep.rules.code.torch._torch import LOADER, SAMPLER

_IN_TABLE = re.compile(r"""["']shuffle["']\s*:\s*True|\bshuffle\s*=\s*True""")


def _shuffles(known: ProjectFacts, loader: Call) -> bool:
    """Whether it is given ``shuffle=True``, itself or in ``**options`` that are written in the same function."""
    shuffle = loader.fact.argument("shuffle", 2)
    if shuffle is not None:
        return shuffle.literal == "True"
    options = {each.value.text for each in loader.fact.arguments if each.name == "**"}
    for each in known.assigned_in.get(loader.fact.function, ()) if options else ():
        table, _, key = each.fact.target.partition("[")
        if each.fact.within or each.fact.order > loader.fact.order or table not in options:
            continue
        if (not key and _IN_TABLE.search(each.fact.value.text)) or (
            key.strip("]\"'") == "shuffle" and each.fact.value.literal == "True"
        ):
            return True
    return False


def _edit(known: ProjectFacts, loader: Call, sampler: str) -> Edit | None:
    """A DistributedSampler shuffles by default, unless ``shuffle=False`` is given; the loader's ``True`` goes."""
    shuffle = loader.fact.argument("shuffle", 2)
    told = [each.fact.argument("shuffle", 3) for each in known.among(loader, SAMPLER)]
    if shuffle is None or sampler != SAMPLER or any(each is not None and each.literal != "True" for each in told):
        return None
    return replaced(known, loader.origin.source, shuffle, "False")


@rule(id="COD104", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(CodeCall,))
def shuffle_with_sampler(seen: EvidenceSet) -> Findings:
    """A DataLoader is given a sampler and `shuffle=True` together.

    ## What it looks like
    ```python
    from torch.utils.data import DataLoader, DistributedSampler

    def loader(data):
        sampler = DistributedSampler(data)
        return DataLoader(data, batch_size=32, sampler=sampler, shuffle=True)
    ```

    ## Why it happens
    The sampler decides about the order, so PyTorch refuses both with `sampler option is mutually exclusive with
    shuffle`.

    ## How we know
    Both arguments stand in the call, and the sampler is one that was made, not None.

    ## What to do
    ```python
    from torch.utils.data import DataLoader, DistributedSampler

    def loader(data):
        sampler = DistributedSampler(data, shuffle=True)
        return DataLoader(data, batch_size=32, sampler=sampler)
    ```

    ## When this is wrong
    When another library's class of the same name takes both.
    """
    known = program(seen)
    for each in known.calls(LOADER):
        sampler = each.fact.argument("sampler", 3)
        if not _shuffles(known, each) or sampler is None or "Sampler" not in sampler.made:
            continue
        if "if" in sampler.text.split():
            continue
        yield Found(
            title="DataLoader is given both a sampler and shuffle=True",
            because=f"PyTorch raises ValueError here: `{sampler.text}` already decides about the order",
            evidence=(each,),
            fixes=(
                Fix(
                    do="leave out shuffle=True; give shuffle=True to the sampler", edit=_edit(known, each, sampler.made)
                ),
            ),
        )
