# SPDX-License-Identifier: Apache-2.0
"""The links between hosts at a glance: a matrix for the terminal, a heat map for the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from keepstep.base.visible import visible
from keepstep.base.wording import count
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed, Reached, usual_rate
from keepstep.render.templating import Markup, fill, join

MOST_IN_HEAT_MAP = 64
WORST_SHOWN = 10
CELL = 5
LABEL = 16
_SHORT = {
    Reached.NO_ANSWER: "drop",
    Reached.SILENT: "mute",
    Reached.REFUSED: "rej",
    Reached.REJECTED: "rej",
    Reached.RESET: "cut",
    Reached.STRANGER: "else",
    Reached.UNRESOLVED: "dns",
}
_MEANING = {
    "drop": "no answer",
    "mute": "connected, but nothing gets through",
    "rej": "rejected",
    "cut": "cut off",
    "else": "another program answers",
    "dns": "does not resolve",
    "mtu": "full-size packets get lost",
}
SLOW = (0.5, 0.25, 0.1)
"""Shares of the usual rate below which a link moves to the next level of heat."""
BLOCKED = len(SLOW) + 1


@dataclass(frozen=True)
class Cell:
    """One direction of one link."""

    source: str
    target: str
    text: str
    level: int
    """0 as fast as the others, up to 3 for far slower; 4 unusable."""
    rate: float | None
    latency: float | None
    said: str


@dataclass(frozen=True)
class Matrix:
    hosts: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]
    usual: float

    @property
    def worst(self) -> list[Cell]:
        """The worst cells first."""
        return sorted(self.cells.values(), key=lambda c: (-c.level, c.rate if c.rate is not None else -1.0))


def lay_out_links(evidence: Iterable[Evidence[Fact]]) -> Matrix | None:
    """The matrix of what was probed; None where nothing was."""
    links: dict[tuple[str, str], list[Evidence[LinkProbed]]] = {}
    ranks: dict[str, int | None] = {}
    for piece in evidence:
        fact = piece.fact
        if isinstance(fact, LinkProbed):
            links.setdefault((fact.source, fact.target), []).append(cast("Evidence[LinkProbed]", piece))
            ranks.setdefault(fact.source, fact.source_rank)
            ranks.setdefault(fact.target, fact.target_rank)
    if not links:
        return None
    hosts = tuple(sorted(ranks, key=lambda host: (ranks[host] is None, ranks[host], host)))
    rates = [rate for found in links.values() if (rate := _rate(found)) is not None]
    usual = usual_rate(rates, len(hosts))
    return Matrix(hosts, {link: _cell(link, found, usual) for link, found in links.items()}, usual)


def _rate(found: list[Evidence[LinkProbed]]) -> float | None:
    """The best measurement of each link; a repeated one counts if it is better."""
    return max((e.fact.rate_bytes_s for e in found if e.fact.rate_bytes_s is not None), default=None)


def _cell(link: tuple[str, str], found: list[Evidence[LinkProbed]], usual: float) -> Cell:
    rate = _rate(found)
    latency = min((e.fact.latency_s for e in found if e.fact.latency_s is not None), default=None)
    failed = next((e for e in found if not e.fact.usable), None)
    lost = next((e for e in found if e.fact.passed_size is not None), None)
    if failed is not None:
        text, level, shown = _SHORT[failed.fact.reached], BLOCKED, failed
    elif lost is not None:
        text, level, shown = "mtu", BLOCKED, lost
    elif rate is None:
        text, level, shown = "ok", 0, found[0]
    else:
        text, level, shown = _short(rate), sum(rate < share * usual for share in SLOW), found[-1]
    return Cell(*link, text, level, rate, latency, shown.quote)


def _short(rate: float) -> str:
    mbit = rate * 8 / 1e6
    for size, unit in ((1e6, "T"), (1e3, "G")):
        if mbit >= 0.9995 * size:
            value = mbit / size
            return f"{value:.0f}{unit}" if value >= 10 else f"{value:.1f}{unit}"
    return f"{mbit:.0f}M" if mbit >= 10 else f"{mbit:.1f}M"


def render_link_matrix(evidence: Iterable[Evidence[Fact]], *, width: int = 80, colour: bool = False) -> str:
    """The links as text at most ``width`` columns wide; empty if nothing was probed."""
    matrix = lay_out_links(evidence)
    if matrix is None:
        return ""
    width = max(60, min(width, 160))
    lines = [
        "",
        f"links between {count(len(matrix.hosts), 'host')} (row calls column, bit/s; usual: {_short(matrix.usual)})",
    ]
    label = min(LABEL, max(len(host) for host in matrix.hosts))
    if label + 5 + CELL * len(matrix.hosts) <= width:
        lines += _grid(matrix, label, colour)
    else:
        lines += _list(matrix, width, colour)
    met = sorted({cell.text for cell in matrix.cells.values()} & set(_MEANING))
    if met:
        lines.append("  " + ", ".join(f"{text}: {_MEANING[text]}" for text in met))
    return "\n".join(lines) + "\n"


def _grid(matrix: Matrix, label: int, colour: bool) -> list[str]:
    numbers = {host: str(n) for n, host in enumerate(matrix.hosts)}
    lines = [" " * (label + 5) + "".join(f"{numbers[host]:>{CELL}}" for host in matrix.hosts)]
    for source in matrix.hosts:
        cells = []
        for target in matrix.hosts:
            cell = matrix.cells.get((source, target))
            text = "·" if source == target else " " if cell is None else cell.text
            cells.append(_paint(f"{text:>{CELL}}", cell.level if cell else 0, colour))
        lines.append(f"  {numbers[source]:>2} {_cut(source, label):<{label}}" + "".join(cells))
    return lines


def _list(matrix: Matrix, width: int, colour: bool) -> list[str]:
    worst = matrix.worst
    behind = [cell for cell in worst if cell.level >= 2]
    fine = len(worst) - len(behind)
    lines = [
        f"  {fine:,} of {count(len(worst), 'link')} as usual; the others, worst first:"
        if behind
        else f"  all {len(worst):,} links as usual"
    ]
    room = (width - 26) // 2
    shown = [(f"  {_cut(cell.source, room)} -> {_cut(cell.target, room)}", cell) for cell in behind[:WORST_SHOWN]]
    longest = max((len(line) for line, _ in shown), default=0)
    for line, cell in shown:
        late = f"{cell.latency * 1e3:8.2f} ms" if cell.latency is not None else ""
        lines.append(_paint(f"{line:<{longest}}  {cell.text:>5} {late}".rstrip(), cell.level, colour))
    if len(behind) > WORST_SHOWN:
        lines.append(f"  + {len(behind) - WORST_SHOWN:,} more")
    return lines


def _cut(text: str, size: int) -> str:
    clean = visible(text)
    return clean if len(clean) <= size else clean[: size - 1] + "…"


def _paint(text: str, level: int, colour: bool) -> str:
    code = {BLOCKED: "31", 3: "31", 2: "33"}.get(level)
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code else text


def heat_map(evidence: Iterable[Evidence[Fact]]) -> Markup:
    """The links as a section of the page; with very many hosts, those with the worst links."""
    matrix = lay_out_links(evidence)
    if matrix is None:
        return Markup()
    hosts = worst_hosts(matrix)
    words = len(hosts) <= 16
    rows = []
    for number, source in enumerate(hosts):
        cells = [_heat(matrix.cells.get((source, target)), source == target, words) for target in hosts]
        rows.append(fill("heat_row.html", number=number, host=source, cells=join(cells)))
    left_out = len(matrix.hosts) - len(hosts)
    behind = sum(cell.level >= 2 for cell in matrix.cells.values())
    return fill(
        "heat_map.html",
        links=f"{len(matrix.cells):,}",
        hosts=len(matrix.hosts),
        usual=f"{matrix.usual * 8 / 1e6:,.0f}",
        behind=f"{behind:,}",
        size="few" if words else "many",
        numbers=join([fill("heat_number.html", number=n, host=host) for n, host in enumerate(hosts)]),
        rows=join(rows),
        left_out=f" Not drawn: {count(left_out, 'host')} whose links are as usual." if left_out else "",
    )


def worst_hosts(matrix: Matrix) -> tuple[str, ...]:
    """Those to draw: all, or those with the worst links."""
    if len(matrix.hosts) <= MOST_IN_HEAT_MAP:
        return matrix.hosts
    chosen: dict[str, None] = {}
    for cell in matrix.worst:
        chosen.setdefault(cell.source)
        chosen.setdefault(cell.target)
        if len(chosen) >= MOST_IN_HEAT_MAP:
            break
    return tuple(host for host in matrix.hosts if host in chosen)


def _heat(cell: Cell | None, own: bool, words: bool) -> Markup:
    if cell is None:
        return fill("heat_cell.html", level="own" if own else "none", tip="", text="")
    sign = {BLOCKED: "×", 3: "!"}.get(cell.level, "")
    return fill("heat_cell.html", level=f"l{cell.level}", tip=cell.said, text=cell.text if words else sign)
