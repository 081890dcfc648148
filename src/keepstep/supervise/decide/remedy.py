# SPDX-License-Identifier: Apache-2.0
"""Remedies: what may be changed before the next attempt, and how much each of them may change.

A safe one changes no results: it raises a limit, names the interface that routes, or steps back to the checkpoint
before a damaged one. What changes results, costs speed or needs the script's help is advice unless asked for.
"""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.cause import Cause
from keepstep.model.facts.resource import DeviceMemoryExhausted, LimitReached
from keepstep.model.facts.training import CheckpointDamaged, CheckpointUnreadable
from keepstep.model.finding import Confidence, Finding, Safety
from keepstep.model.report import Report
from keepstep.sources.host.this_host import interfaces
from keepstep.store.ledger.checkpoint_files import FOLDER, checkpoints_in
from keepstep.store.ledger.format_check import is_whole
from keepstep.store.ledger.verify import verify
from keepstep.supervise.decide.older_checkpoint import Older, older_than, set_aside

INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"


class RemedyMode(Enum):
    """``--remedy``."""

    OFF = "off"
    SAFE = "safe"
    ASK = "ask"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change. The launcher merges ``variables`` into every rank's environment and sets ``limits`` in every rank;
    :func:`apply` does the rest."""

    name: str
    does: str
    """In words: "raise the limit on open files to 65536"."""
    safety: Safety = Safety.SAFE
    variables: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    """Soft limits by their names in ``resource``, as ``("RLIMIT_NOFILE", 65536)``."""
    by_node: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
    """Of several nodes: variables for the ranks of one."""
    addresses: tuple[tuple[int, str], ...] = ()
    """... where the others reach it,"""
    ports: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """... and ports of it that they reach."""
    older: Older | None = None
    """A damaged checkpoint to move aside; the script then takes the one before it."""
    advice_only: bool = False
    """Never done by keepstep, whatever was asked for."""
    command: str | None = None
    """How a person would do it."""


def offered(
    report: Report,
    environment: Mapping[str, str],
    cwd: Path,
    *,
    restored_from: Sequence[str] = (),
    saved_in: Sequence[str] = (),
) -> tuple[Remedy, ...]:
    """What could be done about the report's root cause. Reads this host (limits, routes, checkpoints); changes nothing.

    ``environment`` and ``cwd`` are those of a rank; ``restored_from``: what it named when it restored a checkpoint;
    ``saved_in``: folders in which the guard recorded checkpoints. A bad one that is the newest there is moved aside
    whatever the root cause: the next attempt would load it.
    """
    with contextlib.suppress(OSError, ValueError):
        if (bad := _bad_newest(saved_in, cwd)) is not None:
            return (bad,)
    root = report.root
    if (
        root is None
        or root.confidence is Confidence.HYPOTHESIS
        or root.cause not in {*_KNOWN, Cause.CHECKPOINT_CORRUPT_OR_MISSING}
    ):
        return ()
    try:
        if root.cause is Cause.CHECKPOINT_CORRUPT_OR_MISSING:
            return _step_back(root, restored_from, cwd)
        return _KNOWN[root.cause](root, environment, cwd)
    except (OSError, ValueError):
        return ()


def apply(remedy: Remedy) -> str:
    """Do the part of a remedy that is neither a variable nor a limit. Returns what was done, in words; never raises."""
    if remedy.older is None:
        return remedy.does
    try:
        return set_aside(remedy.older)
    except (OSError, ValueError) as error:
        return f"could not {remedy.does}: {error}"


def _raise_limits(root: Finding, environment: Mapping[str, str], cwd: Path) -> tuple[Remedy, ...]:
    words = " ".join(e.fact.limit for e in root.evidence if isinstance(e.fact, LimitReached)) or root.title
    wanted = (
        [("RLIMIT_NOFILE", "open files")]
        if "file" in words or "descriptor" in words
        else [("RLIMIT_NPROC", "processes and threads")]
    )
    found = []
    for name, what in wanted:
        soft, hard = resource.getrlimit(getattr(resource, name))
        if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or soft < hard):
            value = hard if hard != resource.RLIM_INFINITY else max(soft * 16, 1 << 20)
            does = f"raise the limit on {what} from {soft} to {value}"
            found.append(Remedy(name=f"raise {name}", does=does, limits=((name, value),), command=_ulimit(name, value)))
    return tuple(found)


def _ulimit(name: str, value: int) -> str:
    return f"ulimit -{'n' if name == 'RLIMIT_NOFILE' else 'u'} {value}"


def _pin_interface(root: Finding, environment: Mapping[str, str], cwd: Path) -> tuple[Remedy, ...]:
    name = routing_interface(environment.get("MASTER_ADDR") or "127.0.0.1")
    if name is None or all(environment.get(variable) == name for variable in INTERFACE_VARIABLES[:2]):
        return ()
    variables = tuple((variable, name) for variable in INTERFACE_VARIABLES)
    does = f"use the interface {name}, through which the ranks reach each other"
    return (
        Remedy(
            name=f"pin {name}",
            does=does,
            variables=variables,
            command=f"export NCCL_SOCKET_IFNAME={name} GLOO_SOCKET_IFNAME={name}",
        ),
    )


def routing_interface(address: str) -> str | None:
    """The interface of this host through which packets to ``address`` leave; nothing is sent."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            own = probe.getsockname()[0]
    except OSError:
        return None
    here = [each for each in interfaces() if each.up and own in each.addresses]
    if not here and own.startswith("127."):
        here = [each for each in interfaces() if each.loopback]
    return here[0].name if here else None


def _step_back(root: Finding, restored_from: Sequence[str], cwd: Path) -> tuple[Remedy, ...]:
    """Go back to the checkpoint before the damaged one, if there is an intact one."""
    facts = [e.fact for e in root.evidence if isinstance(e.fact, CheckpointUnreadable | CheckpointDamaged)]
    told = {fact.path: fact.state if isinstance(fact, CheckpointDamaged) else "damaged" for fact in facts if fact.path}
    # most readers do not name the file they cannot read: it is the one the script said it restores, if that is damaged
    named = [] if told else [path for path in restored_from if (cwd / path).exists() and not is_whole(cwd / path)]
    for path in (*told, *named[:1]):
        older = older_than(cwd / path)
        if older is not None:
            return (_aside(older, told.get(path, "damaged")),)
    return ()


def _bad_newest(folders: Sequence[str], cwd: Path) -> Remedy | None:
    """The newest checkpoint of a folder, if it is damaged or was not finished."""
    for folder in folders:
        place = cwd / folder
        place = place.parent if FOLDER.search(place.name) else place
        there = checkpoints_in(place) if place.is_dir() else []
        state = verify(there[-1]).state if there else None
        if state is not None and state.is_bad and (older := older_than(there[-1])) is not None:
            return _aside(older, state.word.lower())
    return None


def _aside(older: Older, word: str) -> Remedy:
    damaged = older.damaged[0]
    does = f"move the {word} checkpoint {damaged.name} to {older.place} and continue from {older.instead}"
    return Remedy(name=f"aside {damaged}", does=does, older=older)


def _less_fragments(root: Finding, environment: Mapping[str, str], cwd: Path) -> tuple[Remedy, ...]:
    if any(name in environment for name in (ALLOCATOR, "PYTORCH_ALLOC_CONF")):
        return ()
    if not any(isinstance(e.fact, DeviceMemoryExhausted) and "torch" in e.quote.lower() for e in root.evidence):
        return ()
    variable = (ALLOCATOR, "expandable_segments:True")
    does = "let torch's allocator grow its segments, which wastes less memory"
    return (
        Remedy(
            name=ALLOCATOR,
            does=does,
            safety=Safety.NEEDS_OWNER,
            variables=(variable,),
            command=f"export {variable[0]}={variable[1]}",
        ),
    )


def _without(name: str, does: str) -> Callable[[Finding, Mapping[str, str], Path], tuple[Remedy, ...]]:
    """NCCL by a slower way. JAX and TensorFlow read the same variable."""
    variable, _, value = name.partition("=")
    remedy = Remedy(
        name=variable, does=does, safety=Safety.NEEDS_OWNER, variables=((variable, value),), command=f"export {name}"
    )
    return lambda root, environment, cwd: () if variable in environment else (remedy,)


_KNOWN: dict[Cause, Callable[[Finding, Mapping[str, str], Path], tuple[Remedy, ...]]] = {
    Cause.RESOURCE_FD_OR_PROCESS_LIMIT: _raise_limits,
    Cause.NETWORK_WRONG_INTERFACE: _pin_interface,
    Cause.RESOURCE_GPU_OOM: _less_fragments,
    Cause.NETWORK_RDMA_IB: _without("NCCL_IB_DISABLE=1", "let NCCL use TCP instead of InfiniBand (slower)"),
    Cause.HARDWARE_NVLINK_PCIE_P2P: _without(
        "NCCL_P2P_DISABLE=1", "let NCCL go through host memory instead of from GPU to GPU (slower)"
    ),
}
