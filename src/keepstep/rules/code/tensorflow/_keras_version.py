# SPDX-License-Identifier: Apache-2.0
"""Whether a program has Keras 3: by the packages that its project asks for, or by what only Keras 3 has."""

from __future__ import annotations

import re

from keepstep.model.facts import LaunchScript, PackageAsked
from keepstep.rules.api import Evidence, EvidenceSet
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import Distributed

_ONLY_3 = re.compile(r"(tensorflow\.)?keras\.(ops|distribution|random)(\.|$)")
_CLAUSE = re.compile(r"(~=|={1,3}|>=|<=|>|<|\^|~|)\s*v?(\d{1,6}(?:\.\d{1,6})*)(\.\*)?")
Version = tuple[int, ...]


def keras_3(tf: Distributed, seen: EvidenceSet, place: Call) -> Evidence[PackageAsked] | Call | None:
    """What proves that a program runs with Keras 3; None if nothing does, or something speaks for Keras 2."""
    if tf.is_legacy(place) or any(_brings_2_back(each.fact) for each in seen.all(LaunchScript)):
        return None
    asked = _asked_near(seen, place)
    ages = [_is_3(each.fact) for each in asked]
    if False in ages:
        return None
    if True in ages:
        return asked[ages.index(True)]
    near = tf.known.near(place)
    used = next((each for each in tf.known.named(_ONLY_3.match) if each.origin.source in near), None)
    imported = any(_ONLY_3.match(name) for path in near for name in tf.known.files[path].imports)
    return used or (place if imported else None)


def _brings_2_back(script: LaunchScript) -> bool:
    options = (*script.variables, *(each for command in script.commands for each in command.sets))
    return any(each.name == "TF_USE_LEGACY_KERAS" for each in options)


def _asked_near(seen: EvidenceSet, place: Call) -> list[Evidence[PackageAsked]]:
    """What the nearest folder above a file asks for. A list above the working folder has its whole path."""
    here = _folder(place.origin.source)
    asked: dict[str, list[Evidence[PackageAsked]]] = {}
    for each in seen.all(PackageAsked):
        folder = _folder(each.origin.source)
        if f"{here}/".startswith(f"{folder}/") or not folder:
            asked.setdefault(folder, []).append(each)
        elif folder.startswith("/") and not here.startswith("/"):
            asked.setdefault("(above)", []).append(each)
    return asked[max(asked, key=lambda folder: -1 if folder == "(above)" else len(folder))] if asked else []


def _folder(source: str) -> str:
    return source.rpartition("/")[0]


def _is_3(asked: PackageAsked) -> bool | None:
    """Whether only versions with Keras 3 will do; False: only those without; None: either."""
    if asked.package == "tf-keras":
        return False
    first: Version = (3,) if asked.package == "keras" else (2, 16)
    for clause in asked.spec.split(","):
        found = _CLAUSE.match(clause.strip())
        if found is None:
            continue
        lowest, end = _range(found[1] + ("*" if found[3] else ""), tuple(int(each) for each in found[2].split(".")))
        if lowest is not None and lowest >= first:
            return True
        if end is not None and end <= first:
            return False
    return None


def _range(operator: str, version: Version) -> tuple[Version | None, Version | None]:
    """The lowest version that a clause allows, and the first one after those that it allows."""
    if operator in (">=", ">"):
        return version, None
    if operator == "<":
        return None, version
    if operator == "<=":
        return None, (*version, 1)
    if operator in ("==", "===", ""):
        return version, (*version, 1)
    if operator == "^":
        return version, _next(version[:1])
    if operator == "~":
        return version, _next(version[:2])
    if operator == "~=":
        return version, _next(version[:-1] or version)
    return version, _next(version)


def _next(version: Version) -> Version:
    return (*version[:-1], version[-1] + 1)
