# SPDX-License-Identifier: Apache-2.0
"""The picture of who would be fed what, for the terminal and on the page."""

from __future__ import annotations

from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.plan import ShareSeen
from keepstep.render.html import render_preflight
from keepstep.render.rank_shares import MOST_RANKS, render_shares, shown
from keepstep.rules import builtin_rules
from keepstep.story.engine import diagnose


def _share(rank: int, steps: int, cells: tuple[int, ...] = (100, 50, 1, 0), policy: str = "jax") -> ShareSeen:
    return ShareSeen(policy=policy, of_rank=rank, records=steps * 4, steps=steps, dropped=0, cells=cells)


def test_each_piece_is_as_dark_as_the_rank_has_of_it() -> None:
    text = render_shares([_share(0, 3), _share(1, 1), _share(2, 0, (0, 0, 0, 0))], unseen=(0, 0, 0, 7))
    assert text.splitlines() == [
        "rank 0    █▒░· 12 records  3 steps",
        "rank 1    █▒░·  4 records   1 step  done 2 steps early",
        "rank 2    ····  0 records  0 steps  nothing",
        "no rank      x",
    ]


def test_of_many_ranks_the_first_and_the_shortest_are_shown() -> None:
    shares = [_share(rank, 1 if rank in (70, 90) else 5) for rank in range(100)]
    drawn = [each.of_rank for each in shown(shares)]
    assert len(drawn) == MOST_RANKS and drawn[:8] == list(range(8)) and {70, 90} <= set(drawn)
    assert "84 more ranks" in render_shares(shares)


def test_the_page_shows_it_and_escapes_names() -> None:
    report = diagnose(EvidenceSet(items=()), builtin_rules())
    page = render_preflight(report, shares=[_share(0, 3, policy="<script>"), _share(1, 3)])
    assert "Who would be fed what" in page and "<code>&lt;script&gt;</code>" in page
    assert page.count('<th scope="row">rank ') == 2
    assert "Who would be fed what" not in render_preflight(report)
