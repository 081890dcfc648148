# SPDX-License-Identifier: Apache-2.0
"""The links between hosts as text and as a heat map: fits 80 columns, the worst first, nothing unescaped."""

from __future__ import annotations

import html.parser
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed, Reached
from keepstep.model.report import Report, Verdict
from keepstep.render.html import render_preflight
from keepstep.render.link_matrix import MOST_IN_HEAT_MAP, heat_map, lay_out_links, render_link_matrix

FAST = 1.25e9


def link(
    a: int | str, b: int | str, rate: float | None = FAST, reached: Reached = Reached.CONNECTED, **more: int
) -> Evidence[Fact]:
    source, target = (end if isinstance(end, str) else f"node-{end}" for end in (a, b))
    ranks = {name: end for name, end in (("source_rank", a), ("target_rank", b)) if isinstance(end, int)}
    fact = LinkProbed(source=source, target=target, rate_bytes_s=rate, latency_s=1e-4, reached=reached, **ranks, **more)
    return Evidence(fact=fact, origin=Origin(source="a test"), quote=f"{source} -> {target}")


def cluster(size: int, *instead: Evidence[Fact]) -> list[Evidence[Fact]]:
    own = {(e.fact.source, e.fact.target) for e in instead if isinstance(e.fact, LinkProbed)}
    every = [link(a, b) for a in range(size) for b in range(size) if a != b]
    return [
        *(e for e in every if isinstance(e.fact, LinkProbed) and (e.fact.source, e.fact.target) not in own),
        *instead,
    ]


def test_nothing_probed_gives_nothing() -> None:
    assert render_link_matrix([]) == "" and heat_map([]) == "" and lay_out_links([]) is None


def test_a_small_cluster_is_a_matrix() -> None:
    links = cluster(3, link(0, 2, 1.25e6), link(1, 2, None, Reached.NO_ANSWER), link(2, 1, None, passed_size=1280))
    assert render_link_matrix(links).splitlines()[1:] == [
        "links between 3 hosts (row calls column, bit/s; usual: 10G)",
        "               0    1    2",
        "   0 node-0    ·  10G  10M",
        "   1 node-1  10G    · drop",
        "   2 node-2  10G  mtu    ·",
        "  drop: no answer, mtu: full-size packets get lost",
    ]


def test_a_large_cluster_shows_the_worst_links_first() -> None:
    text = render_link_matrix(
        cluster(32, link(3, 4, FAST / 100), link(5, 6, FAST / 5), link(7, 8, None, Reached.REFUSED))
    )
    lines = text.splitlines()
    assert "989 of 992 links as usual" in lines[2]
    assert [line.split()[:3] for line in lines[3:6]] == [
        ["node-7", "->", "node-8"],
        ["node-3", "->", "node-4"],
        ["node-5", "->", "node-6"],
    ]


@pytest.mark.parametrize("size", [2, 5, 12, 13, 14, 40])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_stands_in_the_width_of_the_terminal(size: int, width: int) -> None:
    broken = [link(0, 1, None, reached) for reached in Reached if reached is not Reached.CONNECTED]
    for each in broken:
        assert max(map(len, render_link_matrix(cluster(size, each), width=width).splitlines())) <= width


def test_what_was_measured_again_and_was_well_is_well() -> None:
    found = lay_out_links([*cluster(4), link(0, 1, FAST / 100), link(0, 1, FAST)])
    assert found is not None and found.cells["node-0", "node-1"].level == 0


def test_colour_is_used_only_when_asked() -> None:
    links = cluster(3, link(0, 1, None, Reached.NO_ANSWER))
    assert "\x1b" not in render_link_matrix(links)
    assert "\x1b[31m" in render_link_matrix(links, colour=True)


class _Cells(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.cells: list[dict[str, str | None]] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "td":
            self.cells.append(dict(attrs))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=2, max_size=4, unique=True))
def test_names_of_hosts_are_escaped(names: list[str]) -> None:
    hostile = [*names, "<script>alert(1)</script>", '" onmouseover="x']
    links = [link(a, b) for a in hostile for b in hostile if a != b]
    page = _Cells()
    page.feed(heat_map(links))
    assert "script" not in page.tags
    assert all(set(cell) == {"class", "title"} for cell in page.cells)
    assert max(map(len, render_link_matrix(links).splitlines()), default=0) <= 80


def test_the_page_holds_the_heat_map_and_fetches_nothing() -> None:
    page = render_preflight(Report(verdict=Verdict.HEALTHY), cluster(4, link(0, 1, None, Reached.NO_ANSWER)))
    assert 'id="links"' in page and 'class="l4"' in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
    assert 'id="links"' not in render_preflight(Report(verdict=Verdict.HEALTHY))


def test_of_very_many_hosts_those_with_the_worst_links_are_drawn() -> None:
    page = _Cells()
    page.feed(heat_map(cluster(100, link(97, 98, None, Reached.NO_ANSWER))))
    assert len(page.cells) <= (MOST_IN_HEAT_MAP + 1) ** 2
    assert any(cell["class"] == "l4" for cell in page.cells)
