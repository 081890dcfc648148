# SPDX-License-Identifier: Apache-2.0
"""Open MPI's help texts: the boxed paragraphs that say what it could not do, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import LibraryMissing
from keepstep.model.facts.network import NameUnresolved, RdmaTrouble
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"We were unable to find any usable plugins for the (?P<framework>\w{2,20}) framework",
        lambda m: LibraryMissing(name=f"PMIx's {m['framework']} plugins"),
    ),
    signature(
        r"No components were able to be opened in the (?P<framework>\w{2,20}) framework",
        lambda m: LibraryMissing(name=f"a component of Open MPI's {m['framework']} framework"),
    ),
    # The network of TCP
    signature(
        r"gethostbyname failed, (?P<host>[\w.\-]{1,80}) \(errno|unable to get host address for (?P<host2>[\w.\-]{1,80})(?: \(|\s*$)",
        lambda m: NameUnresolved(host=m["host"] or m["host2"]),
    ),
    # InfiniBand and libfabric
    signature(
        r"pml_ucx\.c:\d+ +Error: (?P<what>[A-Za-z][^\n]{5,100})",
        lambda m: RdmaTrouble(what=f"UCX in Open MPI: {m['what'].strip()}"),
    ),
)


def _component(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``Framework: btl``, ``Component: ofi`` below the text: what was requested and is missing."""
    framework: str | None = None
    for _, line in zip(range(12), lines, strict=False):
        if found := re.search(r"Framework: +(\w+)", line):
            framework = found[1]
        elif found := re.search(r"Component: +(\S+)", line):
            yield LibraryMissing(name=f"Open MPI's component {framework or ''}/{found[1]}")
            return


BLOCKS = (block(r"A requested component was not found, or was unable to be opened", _component),)
