# SPDX-License-Identifier: Apache-2.0
"""Whether an agent may join: it must run the same program, on the same Python, under the same keepstep. Pure."""

from __future__ import annotations

from keepstep.base.wording import count
from keepstep.supervise.nodes.messages import Hello


def refusal(new: Hello, *, run: str, version: str, nodes: int, first: Hello | None) -> str | None:
    """Why this agent cannot take part, as one sentence; None: it can.

    ``run`` and ``version`` are the leader's own. ``first``: the agent whose program is the run's.
    """
    who = f"host {new.host} (node {new.node})"
    if new.run != run:
        return f"{who} belongs to another run: its run is {new.run}, this one is {run}"
    if not 0 <= new.node < nodes:
        return f"{who} has a number that this run does not have: it has {count(nodes, 'node')}, numbered from 0"
    if new.version != version:
        return f"{who} has keepstep {new.version}, but the leader has keepstep {version}: install the same version"
    if first is None:
        return None
    other = f"host {first.host} (node {first.node})"
    if minor(new.python) != minor(first.python):
        return f"{who} has Python {new.python}, but {other} has Python {first.python}: use the same Python on all nodes"
    if new.program != first.program:
        return (
            f"{who} has another command or script than {other}: its hash is {new.program}, that of {first.host} "
            f"is {first.program}; give all nodes the same script and arguments"
        )
    if new.per_node != first.per_node:
        return f"{who} has {_ranks(new.per_node)}, but {other} has {_ranks(first.per_node)}: give the same --per-node"
    return None


def taken(new: Hello, old: Hello, silent_s: float) -> str:
    """Why a second agent for the same node cannot take part."""
    return (
        f"host {new.host} wants to be node {new.node}, but host {old.host} is node {old.node} already and was heard "
        f"{silent_s:.1f} s ago: start one agent per node, each with a number of its own"
    )


def minor(python: str) -> tuple[str, ...]:
    """``3.11`` of ``3.11.7``: processes of one minor version understand each other."""
    return tuple(python.split(".")[:2])


def _ranks(per_node: int | None) -> str:
    return "no --per-node" if per_node is None else f"--per-node {per_node}"
