# SPDX-License-Identifier: Apache-2.0
"""ENV006: Triton rejected a call from PyTorch's compiler: their versions do not match."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, lazy_pattern, rule
from keepstep.rules.asking.exceptions import short_type
from keepstep.rules.asking.matched_messages import recognised

_OF_TRITON = lazy_pattern(r"[/\\](?:pytorch_)?triton[/\\](?:compiler|runtime|backends|language)[/\\]\w+\.py$")
_OF_INDUCTOR = lazy_pattern(r"[/\\]torch[/\\]_inductor[/\\]")
_OF_INTERFACES = {"AssertionError", "AttributeError", "TypeError", "ImportError"}
"""Types that mean a wrong call; a kernel that cannot be compiled raises other types."""


@rule(id="ENV006", cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH, needs=(ExceptionRaised,))
def kernel_compiler_misfit(seen: EvidenceSet) -> Findings:
    """Triton rejected a call from PyTorch's compiler.

    ## What it looks like
    `torch.compile` fails on every rank with an `AssertionError`, `TypeError` or `AttributeError` whose last lines
    are in the package `triton`, with `torch/_inductor` above them.

    ## Why it happens
    Another package installed or replaced Triton. Each PyTorch release is written for one Triton release.

    ## How we know
    The type of the exception means a wrong call, not a broken kernel, and PyTorch itself made the call.

    ## What to do
    Install the Triton release that this PyTorch requires.

    ## When this is wrong
    A bug in PyTorch's compiler may produce a call that no Triton release accepts.
    """
    met = [e for e in seen.all(ExceptionRaised) if _misfit(e.fact) and not recognised(seen, e) and not seen.survived(e)]
    if not met:
        return
    evidence: tuple[Evidence[ExceptionRaised], ...] = tuple(met)
    yield Found(
        title=f"Triton rejected a call from PyTorch's compiler ({short_type(met[0].fact)})",
        because="the installed Triton is not the release that this PyTorch was written for",
        evidence=evidence,
        confidence=Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="check which Triton PyTorch requires, and which is installed",
                command="pip check; pip show torch triton",
            ),
            Fix(do="until then, turn the compiler off", command="export TORCH_COMPILE_DISABLE=1"),
        ),
    )


def _misfit(fact: ExceptionRaised) -> bool:
    if short_type(fact) not in _OF_INTERFACES or len(fact.frames) < 2:
        return False
    last = fact.frames[-1].file
    above = [f.file for f in fact.frames[:-1] if f.file]
    return bool(last and _OF_TRITON.search(last)) and any(_OF_INDUCTOR.search(file) for file in above)
