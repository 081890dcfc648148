# SPDX-License-Identifier: Apache-2.0
"""What the rules about JAX programs ask."""

from __future__ import annotations

import ast
from typing import Any

from keepstep.rules.api import CodeDiverges, Evidence
from keepstep.rules.code._asking import ProjectFacts

INIT = "jax.distributed.initialize"
COMPILERS = ("jax.jit", "jax.pmap", "jax.experimental.pjit.pjit")
PARTS = ("jax.make_array_from_process_local_data", "jax.experimental.multihost_utils.host_local_array_to_global_array")
"""Calls that make a global array of what each process holds."""
MANY = ("jax.process_index", "jax.process_count", "jax.host_id", "jax.host_count")
_MAKERS = (
    *("array", "asarray", "zeros", "ones", "full", "empty", "arange", "linspace", "eye", "identity", "zeros_like"),
    *("ones_like", "full_like", "stack", "concatenate", "tril", "triu", "meshgrid", "float32", "int32", "sqrt", "exp"),
    *("log", "sin", "cos", "outer", "dot", "sum", "mean"),
)
DEVICE_USES = frozenset(
    [
        *(f"jax.numpy.{name}" for name in _MAKERS),
        *(f"jax.random.{name}" for name in ("PRNGKey", "key", "normal", "uniform", "split")),
        *MANY,
        *("jax.devices", "jax.local_devices", "jax.device_count", "jax.local_device_count", "jax.default_backend"),
        *("jax.device_put", "jax.make_mesh", "jax.experimental.mesh_utils.create_device_mesh"),
    ]
)
"""Calls that start the backend."""


def is_compiled_by(known: ProjectFacts, place: Evidence[Any], compiler: str) -> bool:
    """Whether the program that a line belongs to uses this compiler, as a call or as a decorator."""
    related = known.related(place)
    return bool(known.among(place, compiler)) or any(
        compiler in each.fact.decorators for path in related for each in known.functions_in.get(path, ())
    )


def has_several_processes(known: ProjectFacts, place: Evidence[Any]) -> bool:
    """Whether the program that a line belongs to is one of several processes."""
    return bool(known.among(place, INIT, *MANY))


def lines_that_decide(known: ProjectFacts, place: Evidence[Any]) -> set[tuple[str, int]]:
    """Where the program that a line belongs to branches by process."""
    related = known.related(place)
    return {
        (path, block.line) for path in related for block in known.blocks_in(path) if block.kind == "if" and block.ranked
    }


def constants(text: str) -> tuple[int | str, ...]:
    """The numbers or names that an argument such as ``donate_argnums`` holds; none if it is not constant."""
    try:
        found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ()
    several = found if isinstance(found, tuple | list) else (found,)
    return tuple(each for each in several if isinstance(each, int | str) and not isinstance(each, bool))


def leaves_global_program(known: ProjectFacts, each: Evidence[CodeDiverges]) -> bool:
    """Whether some processes leave before a compiled program that is given an array which all processes hold."""
    fact = each.fact
    if fact.kind != "compiled" or fact.how != "exit" or fact.path or not known.among(each, INIT):
        return False
    return any(
        call.origin.line == fact.other_line
        and call.fact.name.endswith(".__call__")
        and any(given.value.made in PARTS for given in call.fact.arguments)
        for call in known.inside(fact.function)
    )
