# SPDX-License-Identifier: Apache-2.0
"""COD007: a checkpoint is written over the last good one."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, Value, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program

_RENAMES = ("os.replace", "os.rename", "shutil.move", "shutil.copy", "shutil.copyfile")


def _is_the_same(path: Value) -> bool:
    """Whether it is a constant, or a variable that is one: anything else may hold the step."""
    if path.literal is not None:
        return True
    plain = path.text.replace(".", "").replace("_", "").isidentifier()
    return plain and (path.text.isupper() or path.text.startswith("self."))


def _pickles(known: ProjectFacts, opened: Call) -> bool:
    mode = opened.fact.argument("mode", 1)
    return (
        mode is not None
        and mode.literal == "'wb'"
        and any(each.fact.name == "pickle.dump" for each in known.inside(opened.fact.function))
    )


def _renames(known: ProjectFacts, place: Call) -> bool:
    inside = known.inside(place.fact.function)
    return any(each.fact.name in _RENAMES or each.fact.method in ("rename", "replace") for each in inside)


@rule(
    id="COD007",
    cause=Cause.CHECKPOINT_CORRUPT_OR_MISSING,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def checkpoint_in_place(seen: EvidenceSet) -> Findings:
    """A checkpoint is written over the last good one.

    ## What it looks like
    ```python
    import torch

    def save(model, optimizer):
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
            "latest.pt",
        )
    ```

    ## Why it happens
    If the process is killed while it writes, both the old and the new checkpoint are gone, and the run cannot
    resume.

    ## How we know
    The path is the same every time, and nothing in the function renames a finished file to it.

    ## What to do
    ```python
    import os
    import torch

    def save(model, optimizer):
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
            "latest.part",
        )
        os.replace("latest.part", "latest.pt")
    ```

    ## When this is wrong
    When an older checkpoint is kept under another name.
    """
    known = program(seen)
    for each in known.calls("torch.save", "open"):
        if each.fact.name == "open" and not _pickles(known, each):
            continue
        path = each.fact.argument("f", 1) if each.fact.name == "torch.save" else each.fact.argument("file", 0)
        if path is None or not _is_the_same(path) or _renames(known, each):
            continue
        yield Found(
            title="a checkpoint is written over the last good one",
            because=f"`{path.text}` is the same path every time; a process that is killed here leaves half a file",
            evidence=(each,),
            fixes=(Fix(do="write to another name first, and rename it with os.replace"),),
        )
