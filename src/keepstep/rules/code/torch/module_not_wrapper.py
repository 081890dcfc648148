# SPDX-License-Identifier: Apache-2.0
"""COD110: the step calls the bare module, so gradients are never averaged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts import CodeAssigned, CodeCall, Value
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._losses import BACKWARD, losses_of
from keepstep.rules.code.torch._torch import DDP, is_without_gradients

_WORD = re.compile(r"(?<![\w.])(?:self\.)?[A-Za-z_]\w*")


def _bare_calls(known: ProjectFacts, backward: Call) -> Iterator[Call]:
    """The calls of a wrapped module, past its wrapper, from which this loss comes."""
    names = known.names_inside(backward.fact.function)
    bare = {name: wrap for name, wrap in _past_the_wrapper(known, backward).items() if not _is_called(known, wrap)}
    if not bare and not any(name.startswith(f"{DDP}.module") for name in names):
        return
    inside = known.inside(backward.fact.function)
    before = [
        each for each in inside if each.fact.order < backward.fact.order and not is_without_gradients(each, known)
    ]
    if any(each.fact.name in (f"{DDP}.__call__", f"{DDP}.forward") for each in before):
        return
    for each in before:
        name = each.fact.text.partition("(")[0]
        is_inner = each.fact.name == f"{DDP}.module" or each.fact.name.startswith(f"{DDP}.module.")
        wrap = bare.get(name)
        follows = wrap is not None and (wrap.fact.function != each.fact.function or wrap.fact.order < each.fact.order)
        if (is_inner or follows) and _leads(known, each, backward):
            yield each


def _past_the_wrapper(known: ProjectFacts, backward: Call) -> dict[str, Call]:
    """The variables that hold a module which DDP wrapped under another name, as a backward's function sees them."""
    owner = backward.fact.function.rpartition(".")[0]
    found = {}
    for wrap in known.among(backward, DDP):
        module, wrapper = wrap.fact.argument("module", 0), wrap.fact.assigned
        if module is None or not wrapper or wrapper == module.text:
            continue
        if wrap.fact.function == backward.fact.function:
            found[module.text] = wrap
        elif wrap.fact.function.rpartition(".")[0] == owner and wrapper.startswith("self."):
            same = [each.fact.target for each in known.assigned_in.get(wrap.fact.function, ()) if _is_it(each, module)]
            names = [name for name in (module.text, *same) if name.startswith("self.") and name != wrapper]
            found.update(dict.fromkeys(names, wrap))
    return found


def _is_it(assigned: Evidence[CodeAssigned], module: Value) -> bool:
    return assigned.fact.value.text == module.text


def _is_called(known: ProjectFacts, wrap: Call) -> bool:
    """Whether the wrapper is used: called, or given to something."""
    name = wrap.fact.assigned
    word = re.compile(rf"(?<![\w.]){re.escape(name)}\s*(?:\(|[,)])")
    calls = known.in_file(wrap) if name.startswith("self.") else known.inside(wrap.fact.function)
    return any(word.search(each.fact.text) for each in calls if each is not wrap)


def _leads(known: ProjectFacts, call: Call, backward: Call) -> bool:
    """Whether the loss of a backward is made from what a call returns, by the names of variables."""
    if backward.fact.on is None:
        return False
    if call.fact.text in backward.fact.text:
        return True
    statements = [
        (each.fact.order, each.fact.target, each.fact.value.text)
        for each in known.assigned_in.get(backward.fact.function, ())
        if each.fact.order < backward.fact.order
    ]
    names: set[str] = set()
    for _, target, text in sorted(statements):
        words = set(_WORD.findall(text))
        if call.fact.text in text or names & words:
            names.update(_WORD.findall(target))
    return bool(names & losses_of(backward))


def _gives_the_bare_one(known: ProjectFacts) -> Iterator[Call]:
    """Where a function that trains what it is given gets the module, though a wrapper of it was made and not used."""
    for wrap in known.calls(DDP):
        module, wrapper = wrap.fact.argument("module", 0), wrap.fact.assigned
        if module is None or not wrapper or wrapper == module.text or _is_called(known, wrap):
            continue
        for call in known.inside(wrap.fact.function):
            function = known.functions.get(call.fact.target)
            if function is None or call.fact.order < wrap.fact.order:
                continue
            given = [at for at, each in enumerate(call.fact.arguments) if each.value.text == module.text]
            if given and any(each.fact.method == "backward" for each in known.inside(call.fact.target)):
                yield call


def _averages(known: ProjectFacts, backward: Call) -> bool:
    return "torch.distributed.all_reduce" in known.names_inside(backward.fact.function)


def _found(bare: Call, backward: str) -> Found:
    return Found(
        title="the step calls the bare module: DDP never averages its gradients",
        because=f"`{bare.fact.text}` goes past the wrapper's forward, {backward} exchanges nothing and the replicas"
        " drift apart",
        evidence=(bare,),
        fixes=(Fix(do="call the DDP wrapper itself", safety=Safety.CHANGES_RESULTS),),
    )


@rule(id="COD110", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def module_not_wrapper(seen: EvidenceSet) -> Findings:
    """The training step calls the bare module instead of its DDP wrapper.

    ## What it looks like
    ```python
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for batch in loader:
            loss = model.module(batch).sum()
            loss.backward()
            optimizer.step()
    ```

    ## Why it happens
    DDP averages gradients only for what went through the wrapper's own forward. Called directly, each rank trains
    its own copy, and the replicas drift apart without a word.

    ## How we know
    The loss on which `backward` is called comes from the module inside the wrapper.

    ## What to do
    ```python
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for batch in loader:
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
    ```

    ## When this is wrong
    When the gradients are averaged by hand afterwards.
    """
    known = program(seen)
    for each in known.methods(*BACKWARD):
        if not known.among(each, DDP) or _averages(known, each):
            continue
        bare = next(_bare_calls(known, each), None)
        if bare is not None:
            yield _found(bare, f"so backward (line {each.origin.line})")
    for call in _gives_the_bare_one(known):
        yield _found(call, "so the backward pass in it")
