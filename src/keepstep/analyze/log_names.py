# SPDX-License-Identifier: Apache-2.0
"""What the names of all logs say about their ranks: names that differ only in numbers, and folders of hosts. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from keepstep.base.lazy_pattern import lazy_pattern

_SUFFIX = lazy_pattern(r"-[a-z0-9]{5}(?=\.[a-z]+$|$)")
"""Kubernetes ends the names of a job's pods with five random characters."""
_OF_LIVES = lazy_pattern(r"(?:run|attempt|restart|retry|try|epoch|step|trial|exp|fold|part|version|v)[-_.]?$", re.I)
"""Words before the number of something else than a rank."""
_HOST = lazy_pattern(
    r"(?:^|[/_\-.])(?P<host>(?:node|host|machine|server|slice|vm)[-_]?(?P<number>\d{1,5}))(?=[/_\-.])", re.I
)
_OF_TORCHRUN = lazy_pattern(r"attempt_\d+/\d+(?:/|$)")


def by_numbers(names: Sequence[str], world: int | None) -> dict[str, tuple[int, str]]:
    """Each name's rank, and how it is known, if the names differ in one number, or in two, and count all ranks.

    Two numbers are those of a job and of its pod, or of a slice and its worker. Only the size of the world proves that
    they count ranks.
    """
    if world is None or world < 2 or len(names) < world:
        return {}
    families: dict[tuple[str, ...], dict[str, tuple[int, ...]]] = defaultdict(dict)
    for name in names:
        parts = re.split(r"(\d+)", _SUFFIX.sub("", name))
        if any(len(number) > 9 for number in parts[1::2]):
            continue
        families[tuple(parts[::2])][name] = tuple(map(int, parts[1::2]))
    for texts, family in families.items():
        found = _counted(texts, family) if len(family) == world else {}
        if found:
            return found
    return {}


def _counted(texts: tuple[str, ...], family: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, str]]:
    numbers = list(family.values())
    varying = [n for n in range(len(texts) - 1) if len({each[n] for each in numbers}) > 1]
    if not 1 <= len(varying) <= 2 or any(_OF_LIVES.search(texts[n]) for n in varying):
        return {}
    own = {name: tuple(each[n] for n in varying) for name, each in family.items()}
    each_has = max(last for *_, last in own.values()) + 1
    ranks = {name: (places[0] * each_has if len(places) == 2 else 0) + places[-1] for name, places in own.items()}
    if sorted(ranks.values()) != list(range(len(family))):
        return {}
    if len(varying) == 1:
        return {name: (rank, "the number in the name of its log") for name, rank in ranks.items()}
    return {
        name: (rank, f"{own[name][1]} of group {own[name][0]} by the name of its log, {each_has} per group")
        for name, rank in ranks.items()
    }


def host_in(name: str, hosts: Iterable[str] = ()) -> tuple[str, int | None] | None:
    """The host in the name of a log or of its folder, and its number there: ``node1/rank2.log``, ``gpu-b.log``."""
    words = {part.partition(".")[0] for part in name.lower().split("/")}
    for host in hosts:
        if host in words:
            return host, None
    match = _HOST.search(name.lower())
    return (match["host"], int(match["number"])) if match else None


def of_a_launcher(name: str) -> bool:
    """Whether the number in it is a local rank: torchrun names folders so."""
    return _OF_TORCHRUN.search(name) is not None


def numbered_alike(owned: Mapping[str, set[int]]) -> int | None:
    """How many numbers each host's logs have, if all hosts count from 0 to the same.

    0: the hosts share numbers, but not all of them. None: they share none, so the numbers may be ranks.
    """
    if sum(map(len, owned.values())) == len(set[int]().union(*owned.values())):
        return None
    sizes = {len(each) for each in owned.values()}
    whole = all(each == set(range(len(each))) for each in owned.values())
    return sizes.pop() if whole and len(sizes) == 1 else 0
