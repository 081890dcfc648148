# SPDX-License-Identifier: Apache-2.0
"""Arrays that are spread over the devices of all processes."""

from __future__ import annotations

import re
from typing import Any

from keepstep.rules.api import Evidence, Value
from keepstep.rules.code._asking import Call, ProjectFacts
from keepstep.rules.code.jax._jax import INIT

NAMED = "jax.sharding.NamedSharding"
_MESHES = ("jax.sharding.Mesh", "jax.make_mesh", "jax.sharding.make_mesh")
_PARTLY = re.compile(r"local_devices|local_mesh|addressable|local_sharding|devices\(\)\[|devices\[")


def sharding_of(known: ProjectFacts, place: Call, given: Value | None) -> Call | None:
    """The call that made a sharding which divides rows among the devices of all processes, as far as the file tells."""
    if given is None or given.made != NAMED:
        return None
    origins = known.origins(place, given)
    made = [
        each
        for at, value in origins
        for each in known.in_file(at)
        if each.fact.name == NAMED and value.text in (each.fact.assigned, each.fact.text)
    ]
    if len(made) != len(origins) or not all(is_divided(known, each) for each in made):
        return None
    return made[0] if made and all(meshes_are_global(known, each) for each in made) else None


def is_divided(known: ProjectFacts, sharding: Call) -> bool:
    """Whether its spec names an axis first: ``P("data")``, not ``P()`` and not ``P(None, "model")``."""
    spec = sharding.fact.argument("spec", 1)
    if spec is None:
        return False
    specs = [each for each in known.in_file(sharding) if spec.text in (each.fact.text, each.fact.assigned)]
    specs = [each for each in specs if each.fact.name.endswith("PartitionSpec")]
    first = specs[0].fact.arguments[:1] if len(specs) == 1 else ()
    return bool(first) and first[0].value.literal not in (None, "None")


def meshes_are_global(known: ProjectFacts, place: Evidence[Any]) -> bool:
    """Whether the file makes its meshes of all devices."""
    meshes = [each for each in known.in_path(place.origin.source) if each.fact.name in _MESHES]
    return bool(meshes) and not any(_PARTLY.search(each.fact.text) for each in known.in_path(place.origin.source))


def starts_processes(known: ProjectFacts, place: Evidence[Any]) -> Call | None:
    """Where the program joins other processes, in this file or in one that runs with it."""
    starts = known.among(place, INIT)
    return starts[0] if starts else None
