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


def on_one_host(nodes: Iterable[str]) -> tuple[str, ...] | None:
    """Those of the nodes that share a machine, as where one runs several ``slurmd``; None if Slurm says nothing."""
    answer = ask_client(["scontrol", "show", "node", ",".join(nodes), "--oneliner"])
    return parse_sharing(answer.text) if answer.status == 0 else None


def parse_sharing(text: str) -> tuple[str, ...]:
    """The same, from what `scontrol show node --oneliner` prints: nodes with one address, or with one host name."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if name := re.search(r"\bNodeName=(\S+)", line):
            for place in re.findall(r"\b(?:NodeAddr|NodeHostName)=([^\s(]\S*)", line):
                found.setdefault(place, set()).add(name[1])
    return tuple(sorted({name for names in found.values() if len(names) > 1 for name in names}))


def parse_nodes(text: str) -> dict[str, str]:
    """Names and addresses in what `scontrol show node --oneliner` prints."""
    found = {}
    for line in text.splitlines():
        name, address = re.search(r"\bNodeName=(\S+)", line), re.search(r"\bNodeAddr=(\S+)", line)
        if name and address:
            found[name[1]] = address[1]
    return found
