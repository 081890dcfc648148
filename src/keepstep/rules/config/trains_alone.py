# SPDX-License-Identifier: Apache-2.0
"""CFG005: each process formed a world of its own."""

from __future__ import annotations

import re

from keepstep.model.facts import NodeSeen, ProcessesStarted, StepSeen, WorldSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, lazy_pattern, rule

NEAR = 400
"""Processes that start together print their world size within this many lines; otherwise they are separate runs."""


def _said_again(seen: EvidenceSet, sized: tuple[Evidence[WorldSeen], ...]) -> int:
    """How often one stream printed the same about its world before any training step: a process prints it once."""
    often = 0
    for first in sized:
        alike = [e for e in sized if _words(e) == _words(first) and e.origin.writer == first.origin.writer]
        start = first.origin.line or 0
        lines = {line for e in alike if (line := e.origin.line) is not None and start <= line <= start + NEAR}
        if len(lines) >= 2 and not any(min(lines) < (s.origin.line or 0) < max(lines) for s in seen.all(StepSeen)):
            often = max(often, len(lines))
    return often


def _words(e: Evidence[WorldSeen]) -> str:
    return re.sub(r"[\d:.,\-+ TZ]+", " ", e.quote).strip().lower()


@rule(
    id="CFG005",
    cause=Cause.CONFIG_TRAINS_ALONE,
    needs=(WorldSeen, NodeSeen),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.SYNC_RACE_ON_SHARED_STATE, Cause.RESOURCE_GPU_OOM, Cause.NETWORK_PORT_IN_USE),
)
def trains_alone(seen: EvidenceSet) -> Findings:
    """Each process formed a world of its own and trained alone.

    ## What it looks like
    Several processes of one run each say that they are rank 0 of 1, or print `Single-worker
    MultiWorkerMirroredStrategy`. Nothing fails. Each trains on all the data, and they overwrite each other's files.

    ## Why it happens
    The scheduler started several tasks, but the program does not know: TF_CONFIG is empty, the launcher's variables are
    missing, or the trainer's number of nodes is 1.

    ## How we know
    Every process that prints the size of its world prints 1, and there are several such processes: they write to
    separate streams, or the launcher was asked for several, or the same message appeared again before any step.

    ## What to do
    Give each process the list of all members and its own index, through the launcher or TF_CONFIG.

    ## When this is wrong
    The logs come from separate runs that were never meant to work together.
    """
    sized = tuple(e for e in seen.all(WorldSeen) if e.fact.size is not None)
    meant = _meant_to_join(sized)
    if meant:
        yield _came_apart(meant)
        return
    if not sized or any((e.fact.size or 0) > 1 for e in sized):
        yield from _nodes_apart(seen)
        return
    writers = {(*e.origin.writer, e.fact.pid) for e in sized}
    started = max((e.fact.count for e in seen.all(ProcessesStarted)), default=0)
    count = max(len(writers), started if started > 1 else 0, _said_again(seen, sized))
    if count < 2:
        return
    yield Found(
        title=f"{count} processes each formed a world of one and trained alone",
        because="every process that prints the size of its world prints 1",
        confidence=Confidence.HYPOTHESIS if len(writers) < 2 and seen.broken else None,
        evidence=sized[:8],
        fixes=(
            Fix(
                do="with TensorFlow, give every process the list of members and its own index",
                command="echo $TF_CONFIG",
            ),
            Fix(
                do="with PyTorch, give every process its rank and the number of ranks", command="echo $RANK $WORLD_SIZE"
            ),
            Fix(do="with JAX, join the processes before doing anything else", code="jax.distributed.initialize()"),
            Fix(do="start all of them through one launcher", command=f"keepstep run -n {count} -- python train.py"),
        ),
    )


def _nodes_apart(seen: EvidenceSet) -> Findings:
    """Logs named after different nodes, each of which says that its run has one node, and takes as many steps."""
    said = [e for e in seen.all(NodeSeen) if e.fact.count is not None]
    if len({e.origin.source for e in said}) < 2 or any(e.fact.count != 1 for e in said):
        return
    nodes = {e.origin.source: e for e in said}
    lengths = {e.origin.source: e.fact.of for e in seen.all(StepSeen) if e.fact.of is not None}
    shapes = {re.sub(r"\d+", "#", source) for source in nodes}
    if len(shapes) > 1 or not all(_OF_A_NODE.search(source) for source in nodes):
        return
    if set(lengths) >= set(nodes) and len({lengths[source] for source in nodes}) == 1:
        yield Found(
            title=f"{len(nodes)} nodes each formed a world of their own and trained alone",
            because="each says that its run has one node, and each takes all steps",
            confidence=Confidence.HYPOTHESIS,
            evidence=tuple(nodes.values())[:8],
            ranks=(),
            fixes=(Fix(do="name all nodes to the launcher, and give each its own node rank"),),
        )


_OF_A_NODE = lazy_pattern(r"(?i)(?:node|host|machine|worker|server|pod)[-_.]?\d+")


def _meant_to_join(sized: tuple[Evidence[WorldSeen], ...]) -> list[Evidence[WorldSeen]]:
    """Where processes were given a place in a world, and all of them formed one of their own, by the framework's count.

    For each: what it was given, and what it counted.
    """
    streams: dict[tuple[str, str], list[Evidence[WorldSeen]]] = {}
    for each in sized:
        streams.setdefault(each.origin.writer, []).append(each)
    found: list[Evidence[WorldSeen]] = []
    for said in streams.values():
        last = said[-1]
        if last.fact.size != 1:
            return []
        given = next((e for e in reversed(said) if (e.fact.size or 0) > 1 and e.fact.index is not None), None)
        if given is not None and _COUNTED.search(last.quote):
            found += [given, last]
    return found


def _came_apart(meant: list[Evidence[WorldSeen]]) -> Found:
    size = max(e.fact.size or 0 for e in meant)
    return Found(
        title=f"processes that were given a place in a world of {size} each formed a world of one",
        because="the framework counts one process, after the program had asked it to join the others",
        evidence=tuple(meant[:8]),
        fixes=(
            Fix(
                do="with JAX, join the processes before anything that uses a device: a backend that exists stays local",
                code="jax.distributed.initialize()  # the first call to jax in the program",
            ),
            Fix(do="with PyTorch, form the process group before reading its size", code="dist.init_process_group()"),
        ),
    )


_COUNTED = lazy_pattern(r"process_count|hvd\.size|get_world_size|\b(?:process|rank) 0 ?(?:of|/) ?1\b")
"""Counts of the framework itself, not of the program's settings."""
