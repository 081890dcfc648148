# SPDX-License-Identifier: Apache-2.0
"""ENV012: Python found no module of a name."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.asking.exceptions import Raised, missing_module, place_of, ranks_told
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, who
from keepstep.rules.last_resort.words import unexplained

PACKAGES = {
    "attr": "attrs",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "google.protobuf": "protobuf",
    "PIL": "pillow",
    "pytorch_lightning": "pytorch-lightning",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "tensorflow_datasets": "tensorflow-datasets",
    "yaml": "pyyaml",
}
"""Modules whose package is called otherwise."""


@rule(
    id="ENV012",
    cause=Cause.ENV_MISSING_SHARED_LIBRARY,
    needs=(ExceptionRaised,),
    standing=Standing.EXCEPTION,
    confidence=Confidence.ESTABLISHED,
    explains=OF_A_DEAD_RANK,
)
def module_not_found(seen: EvidenceSet) -> Findings:
    """Python found no module of the name that the program imports, on one or all ranks.

    ## What it looks like
    `ModuleNotFoundError: No module named 'datasets'`.

    ## Why it happens
    The package is not installed in the environment that the ranks use: a node was set up differently, or the launcher
    starts another Python. Or the module is the program's own, and the ranks start in another folder.

    ## How we know
    Python named the module, and the exception was not caught.

    ## What to do
    Install the package on every node, or put the folder of your own module on Python's path.

    ## When this is wrong
    The name of the package may differ from that of the module.
    """
    groups: dict[str, list[Raised]] = {}
    for told in unexplained(seen):
        module = missing_module(told.fact)
        if module is not None and not seen.merely_logged(told):
            groups.setdefault(module, []).append(told)
    for module, raised in groups.items():
        top = module.partition(".")[0]
        package = PACKAGES.get(module) or PACKAGES.get(top) or top
        yield Found(
            title=f"{who(tuple(raised))} could not import {module}{place_of(raised[0].fact)}: no such module",
            because=f"no module {module} is installed, or on Python's path, where it ran",
            evidence=tuple(raised),
            ranks=ranks_told(seen, tuple(raised)),
            fixes=(
                Fix(
                    do="install it on every node, in the environment that the ranks use",
                    command=f"python -m pip install {package}",
                ),
                Fix(
                    do="or, if it is a module of your own, start the ranks where Python finds it",
                    command='export PYTHONPATH="$PWD"',
                ),
            ),
        )
