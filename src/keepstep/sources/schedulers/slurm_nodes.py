# SPDX-License-Identifier: Apache-2.0
"""Where Slurm's nodes are: node names are Slurm's own and need not resolve."""

from __future__ import annotations

import re
from collections.abc import Iterable

from keepstep.sources.schedulers.scheduler_answer import ask_client


def addresses_of(nodes: Iterable[str]) -> dict[str, str]:
    """The address that Slurm itself uses for each node, if it gives one."""
    wanted = list(nodes)
    if not wanted:
        return {}
    return parse_nodes(ask_client(["scontrol", "show", "node", ",".join(wanted), "--oneliner"]).text)


def parse_nodes(text: str) -> dict[str, str]:
    """Names and addresses in what `scontrol show node --oneliner` prints."""
    found = {}
    for line in text.splitlines():
        name, address = re.search(r"\bNodeName=(\S+)", line), re.search(r"\bNodeAddr=(\S+)", line)
        if name and address:
            found[name[1]] = address[1]
    return found
