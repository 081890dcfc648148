# SPDX-License-Identifier: Apache-2.0
"""COD309: float64 is asked for, and x64 is off."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.jax._jax import COMPILERS

_DOUBLE = ("jax.numpy.float64", "numpy.float64")
_MAKES = ("jax.numpy.", "jax.random.", "jax.nn.", "jax.lax.")
_ASKS = ("finfo", "iinfo", "dtype", "issubdtype", "result_type", "promote_types", "can_cast", "isdtype", "finfo")
"""Calls that only ask about a type."""


def _doubles(known: ProjectFacts) -> Iterator[Call]:
    enabled: set[str] = {
        each.origin.source for each in known.calls_writing("x64", "X64") if "enable_x64" in each.fact.text.lower()
    }
    enabled |= {
        each.origin.source for each in known.assigned_writing("x64", "X64") if "enable_x64" in each.fact.target.lower()
    }
    for call in known.named(lambda name: name.startswith(_MAKES) or name.endswith("astype"), "float64"):
        function = known.functions.get(call.fact.function)
        is_compiled = function is not None and any(each in COMPILERS for each in function.fact.decorators)
        if _is_double(call, is_compiled) and not enabled & known.related(call):
            yield call


def _is_double(call: Call, is_compiled: bool) -> bool:
    fact = call.fact
    if fact.name == _DOUBLE[0]:
        return True
    is_cast = fact.method == "astype" and fact.on is not None and (fact.on.made.startswith("jax.") or is_compiled)
    if not is_cast and (not fact.name.startswith(_MAKES) or fact.method in _ASKS):
        return False
    given = [each.value for each in fact.arguments if each.name in ("dtype", "")]
    return any(value.made in _DOUBLE or value.literal == "'float64'" for value in given if " if " not in value.text)


@rule(
    id="COD309",
    cause=Cause.DATA_DTYPE_MISMATCH,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def float64_without_x64(seen: EvidenceSet) -> Findings:
    """An array of 64 bits is asked for, and nothing switches `jax_enable_x64` on.

    ## What it looks like
    ```python
    import jax.numpy as jnp

    def gram(size):
        return jnp.zeros((size, size), dtype=jnp.float64)
    ```

    ## Why it happens
    JAX makes arrays of 32 bits unless x64 is switched on before the first one. It warns once, and computes in
    single precision: sums and solutions lose half of their digits.

    ## How we know
    `float64` is given to a function of `jax.numpy`, and no related file mentions `enable_x64`.

    ## What to do
    ```python
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def gram(size):
        return jnp.zeros((size, size), dtype=jnp.float64)
    ```

    ## When this is wrong
    When the variable JAX_ENABLE_X64 is set where the program is started, or in a program that was not read.
    """
    known = program(seen)
    for each in _doubles(known):
        yield Found(
            title="float64 becomes float32: x64 is not switched on",
            because=f"`{each.fact.text}` gives an array of 32 bits, because nothing sets jax_enable_x64",
            evidence=(each,),
            fixes=(
                Fix(
                    do='call jax.config.update("jax_enable_x64", True) first, or ask for float32',
                    safety=Safety.CHANGES_RESULTS,
                ),
            ),
        )
