# SPDX-License-Identifier: Apache-2.0
"""How ranks, functions, counts, durations and sizes are written, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def called(function: str) -> str:
    """``step()``, but ``<module>`` as it is."""
    return function if function.endswith((">", ")")) else f"{function}()"


def ranks(indices: Iterable[int], most: int = 6) -> str:
    """``rank 3``, ``ranks 0, 2 and 5``, ``ranks 0-63``."""
    known = sorted(set(indices))
    if not known:
        return "an unnamed rank"
    if len(known) == 1:
        return f"rank {known[0]}"
    parts = _spans(known)
    if len(parts) > most:
        return f"{len(known)} ranks ({', '.join(parts[:3])}, ...)"
    return "ranks " + listing(parts)


def ranks_with_hosts(indices: Iterable[int], hosts: Mapping[int, str], most: int = 4) -> str:
    """``rank 5 (host-b)``, ``rank 1 (host-a) and rank 5 (host-b)``; without hosts, as :func:`ranks`."""
    places: dict[str | None, list[int]] = {}
    for index in sorted(set(indices)):
        places.setdefault(hosts.get(index), []).append(index)
    if set(places) <= {None}:
        return ranks(indices)
    if len(places) > most:
        named = [host for host in places if host is not None]
        return f"{ranks(indices)} (on {len(named)} hosts: {', '.join(named[:3])}, ...)"
    return listing([ranks(some) + (f" ({host})" if host is not None else "") for host, some in places.items()])


def _spans(known: list[int]) -> list[str]:
    spans: list[list[int]] = []
    for index in known:
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    parts: list[str] = []
    for low, high in spans:
        if high - low >= 2:
            parts.append(f"{low}-{high}")
        else:
            parts.extend(str(n) for n in range(low, high + 1))
    return parts


def listing(parts: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    items = list(parts)
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``10 min``, ``1.5 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def size(number: float) -> str:
    """``512 B``, ``1.2 GB``."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(number) < 1000 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("unreachable")


def shorten(text: str, most: int = 200) -> str:
    """One line of bounded length. Secrets are removed first: half a token, left by a cut, would not be recognised."""
    flat = " ".join(text.split())
    if len(flat) > most or "\n" in text:
        from keepstep.base.redact import redact  # expensive, and rarely needed

        flat = " ".join(redact(text).split())
    return flat if len(flat) <= most else flat[: most - 3].rstrip() + "..."
