# SPDX-License-Identifier: Apache-2.0
"""ENV006: Triton refused what PyTorch's compiler hands it: their versions do not belong together."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.process import ExceptionRaised
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.core.rule import rule
from keepstep.rules.questions.exceptions import recognised, short_type

_OF_TRITON = lazy_pattern(r"[/\\](?:pytorch_)?triton[/\\](?:compiler|runtime|backends|language)[/\\]\w+\.py$")
_OF_INDUCTOR = lazy_pattern(r"[/\\]torch[/\\]_inductor[/\\]")
_OF_INTERFACES = {"AssertionError", "AttributeError", "TypeError", "ImportError"}
"""Kinds with which a function refuses to be called so; a kernel that cannot be compiled has kinds of its own."""


@rule(id="ENV006", cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH, needs=(ExceptionRaised,))
def kernel_compiler_misfit(seen: EvidenceSet) -> Iterator[Found]:
    """Triton refused the way PyTorch's compiler calls it.

    ## What it looks like
    `torch.compile` fails on every rank with an `AssertionError`, `TypeError` or `AttributeError` whose last lines
    are in the package `triton` and the ones above in `torch/_inductor`.

    ## Why it happens
    Another package brought, or replaced, Triton; each release of PyTorch is written for one release of it.

    ## How we know
    The exception is of a kind that tells of a call, not of a kernel, and PyTorch made the call itself.

    ## What to do
    Install the Triton that this PyTorch asks for.

    ## When this is wrong
    A fault of PyTorch's compiler may hand over something that no version of Triton takes.
    """
    met = [e for e in seen.all(ExceptionRaised) if _misfit(e.fact) and not recognised(seen, e) and not seen.survived(e)]
    if not met:
        return
    evidence: tuple[Evidence[ExceptionRaised], ...] = tuple(met)
    yield Found(
        title=f"Triton refused a call of PyTorch's compiler ({short_type(met[0].fact)})",
        because="the installed Triton is not the one that this PyTorch was written for",
        evidence=evidence,
        confidence=Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="see which Triton PyTorch asks for, and which is installed",
                command="pip check; pip show torch triton",
            ),
            Fix(do="until then, run without the compiler", command="export TORCH_COMPILE_DISABLE=1"),
        ),
    )


def _misfit(fact: ExceptionRaised) -> bool:
    if short_type(fact) not in _OF_INTERFACES or len(fact.frames) < 2:
        return False
    last = fact.frames[-1].file
    above = [f.file for f in fact.frames[:-1] if f.file]
    return bool(last and _OF_TRITON.search(last)) and any(_OF_INDUCTOR.search(file) for file in above)
