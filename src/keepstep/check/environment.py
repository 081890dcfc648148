# SPDX-License-Identifier: Apache-2.0
"""The env part: what this process would run with. The rules compare it."""

from __future__ import annotations

from keepstep.check.place import Collected, Place
from keepstep.check.script import look_at_script
from keepstep.model.facts.software import Pairs, SoftwareSeen
from keepstep.sources.host import software


def look(place: Place) -> Collected:
    """The software of this process."""
    looked = Collected()
    found = SoftwareSeen(
        host=place.host,
        packages=_pairs(software.packages()),
        places=_pairs(software.places()),
        system=_pairs(software.system()),
        cpu_flags=software.cpu_flags(),
        variables=_pairs(software.variables(place.env)),
        script=place.script.name if place.script else None,
        script_hash=software.digest(place.script) if place.script else None,
    )
    looked.add(place.saw(found, "the software", _quote(found)))
    looked.checked(f"software ({len(found.packages)} packages, Python {dict(found.system)['Python']})")
    looked.take(look_at_script(place))
    return looked


def _pairs(found: dict[str, str]) -> Pairs:
    return tuple(sorted(found.items()))


def _quote(found: SoftwareSeen) -> str:
    packages = dict(found.packages)
    named = [
        name
        for name in ("tensorflow", "tensorflow-cpu", "torch", "jax", "jaxlib", "keras", "numpy")
        if name in packages
    ]
    return ", ".join(f"{name} {packages[name]}" for name in named) or "no framework"
