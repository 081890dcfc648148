# SPDX-License-Identifier: Apache-2.0
"""The verb ``lab``: the package ``keepstep_lab`` has its options and does its work, where it is installed."""

from __future__ import annotations

import importlib
import importlib.util

from keepstep.cli.arguments import Verbs, add_verb

OPTIONS = "keepstep_lab.cli.arguments"
ABSENT = (
    "the lab is a package of its own, keepstep-lab, which is not installed: "
    "`pip install ./lab` in a checkout of keepstep installs it"
)


def installed() -> bool:
    """Whether the lab is there."""
    return importlib.util.find_spec("keepstep_lab") is not None


def add(verbs: Verbs) -> None:
    """Add the verb, with all that the lab accepts or without."""
    if installed():
        importlib.import_module(OPTIONS).add(verbs)
    else:
        add_verb(verbs, "lab", "break real training jobs on purpose (not installed)", ABSENT)


def suggestions() -> dict[tuple[str, str], tuple[str, ...]]:
    """What a shell may suggest below it."""
    return dict(importlib.import_module(OPTIONS).suggestions()) if installed() else {}
