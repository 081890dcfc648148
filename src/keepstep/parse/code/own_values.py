# SPDX-License-Identifier: Apache-2.0
"""Values that each rank makes of its own data: a loss, until it is reduced over all ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from keepstep.parse.code.scope import KnownValue, looked_up, may_be_ours
from keepstep.parse.code.vocabulary import COLLECTIVE_METHODS, COLLECTIVES, EQUALISED, WRAPPERS

_SHARED = re.compile(r"(?i)reduce|gather|sync|broadcast|average_across|(?:^|_)all_")
"""In the names of what may ask the other ranks."""
_KEEPS = frozenset("torch math numpy float int bool abs sum min max any all round list tuple".split())
_NOT_THE_DATA = frozenset(
    "shape size dim ndim numel device dtype requires_grad grad_fn is_cuda keys named_parameters parameters".split()
)
"""Attributes and methods that are as on all other ranks."""
MOST = 6
OWN_DISK = "(own disk)"
"""Where a path comes from that is on the disk of this host."""
_DISKS = ("'/tmp/", "'/dev/shm/", "'/var/tmp/")
_FOLDERS = frozenset(f"os.environ[{name}]" for name in ("SLURM_TMPDIR", "TMPDIR", "LOCAL_DIR", "LOCAL_SCRATCH"))
_ASKS_DISK = frozenset({"os.path.exists", "os.path.isfile", "os.path.isdir"})


def about_own_disk(name: str, path: KnownValue) -> KnownValue | None:
    """What a call of ``os.path`` says about a path on the disk of this host: other hosts may have another file there."""
    if not (path.made in _FOLDERS or path.made == OWN_DISK or (path.literal or "").startswith(_DISKS)):
        return None
    if name in _ASKS_DISK:
        return KnownValue(made=name, ranked=True)
    return KnownValue(made=OWN_DISK) if name == "os.path.join" else None


def own_result(name: str, callee: KnownValue, arguments: Iterable[KnownValue]) -> tuple[str, ...]:
    """Of what a call returns."""
    source = looked_up(name)
    makes = ""
    if name.endswith(".__call__"):
        makes = source or (name if name.removesuffix(".__call__") in WRAPPERS else "")
    given = joined(callee, *arguments)
    method = name.rpartition(".")[2]
    if not (given or makes) or _asks_others(name, method) or method in _NOT_THE_DATA:
        return ()
    if makes:
        return (*given, makes)[-MOST:]
    if callee.own or name.partition(".")[0] in _KEEPS:
        return given
    return (*given, f">{name}")[-MOST:] if may_be_ours(name) and "." in name else ()


def _asks_others(name: str, method: str) -> bool:
    if name in COLLECTIVES and not name.endswith(".__call__"):
        return True
    return (
        method in COLLECTIVE_METHODS or method in EQUALISED or bool(_SHARED.search(method)) or ".distributed." in name
    )


def may_be_agreed(known: KnownValue) -> bool:
    """Whether it comes from what may ask the other ranks."""
    names = [each.partition("[")[0] for each in (known.made, *known.functions)]
    return not known.ranked and any(_asks_others(name, name.rpartition(".")[2]) for name in names)


def own_attribute(base: KnownValue, attribute: str) -> tuple[str, ...]:
    return () if attribute in _NOT_THE_DATA else base.own


def joined(*values: KnownValue) -> tuple[str, ...]:
    """Of what is made of several."""
    found = [each for value in values for each in value.own]
    return tuple(dict.fromkeys(found))[:MOST] if found else ()
