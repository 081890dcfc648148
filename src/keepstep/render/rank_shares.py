# SPDX-License-Identifier: Apache-2.0
"""Who would be fed what, at a glance: one bar per rank, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keepstep.base.wording import count
from keepstep.model.facts.plan import ShareSeen
from keepstep.render.templating import Markup, fill, join

MOST_RANKS = 16
FULL, MOST, PART, LITTLE, NONE = "█", "▓", "▒", "░", "·"
_LEVELS = ((100, FULL), (67, MOST), (34, PART), (1, LITTLE), (0, NONE))


def shown(shares: Sequence[ShareSeen]) -> list[ShareSeen]:
    """The shares to draw: all, or the first ones and those with the fewest steps."""
    if len(shares) <= MOST_RANKS:
        return list(shares)
    first = list(shares[: MOST_RANKS // 2])
    least = sorted(shares[MOST_RANKS // 2 :], key=lambda each: (each.steps, each.records, each.of_rank))
    return sorted([*first, *least[: MOST_RANKS // 2]], key=lambda each: each.of_rank)


def bar(share: ShareSeen) -> str:
    """One character per piece of the data: how much of it the rank gets."""
    return "".join(next(sign for least, sign in _LEVELS if cell >= least) for cell in share.cells)


def said_of(share: ShareSeen, longest: int) -> tuple[str, str, str]:
    """What stands behind a bar: records, steps, and what is odd about them, if anything."""
    odd = f"drops {share.dropped:,}" if share.dropped else ""
    if not share.records:
        odd = "nothing"
    elif share.steps < longest:
        odd = f"done {count(longest - share.steps, 'step')} early"
    return count(share.records, "record"), count(share.steps, "step"), odd


def _columns(shares: Sequence[ShareSeen]) -> tuple[int, int, int]:
    """How wide the words behind the bars are."""
    longest = max((each.steps for each in shares), default=0)
    said = [said_of(each, longest) for each in shown(shares)]
    return tuple(max((len(each[n]) for each in said), default=0) for n in range(3))  # type: ignore[return-value]


def beside(shares: Sequence[ShareSeen]) -> int:
    """Columns that a terminal's line needs besides the bar."""
    records, steps, odd = _columns(shares)
    return len(_rank(0)) + 1 + records + 2 + steps + (2 + odd if odd else 0)


def _rank(rank: int) -> str:
    return f"rank {rank:<4} "


def render_shares(shares: Sequence[ShareSeen], unseen: Sequence[int] = ()) -> str:
    """The picture for a terminal. ``unseen``: how many per cent of each piece no rank gets."""
    longest = max((each.steps for each in shares), default=0)
    wide, narrow, _ = _columns(shares)
    drawn = shown(shares)
    lines = []
    for each in drawn:
        records, steps, odd = said_of(each, longest)
        lines.append(f"{_rank(each.of_rank)}{bar(each)} {records:>{wide}}  {steps:>{narrow}}  {odd}".rstrip())
    if len(drawn) < len(shares):
        lines.append(f"          {count(len(shares) - len(drawn), 'more rank')}: the ones shown have the fewest steps")
    if any(unseen):
        marks = "".join("x" if cell else " " for cell in unseen)
        lines.append(f"no rank   {marks}".rstrip())
    if shares and shares[0].shuffled:
        lines.append("          the order is shuffled: a place in a bar is one in that order")
    return "\n".join(lines)


def shares_markup(facts: Iterable[ShareSeen]) -> Markup:
    """The section of the page; nothing where no plan was made."""
    shares = sorted(facts, key=lambda each: each.of_rank)
    if not shares:
        return Markup()
    longest = max(each.steps for each in shares)
    drawn = shown(shares)
    rows = [
        fill(
            "share_row.html",
            rank=each.of_rank,
            pieces=join([fill("share_piece.html", level=_level(cell), tip=f"{cell} %") for cell in each.cells]),
            said=", ".join(word for word in said_of(each, longest) if word),
        )
        for each in drawn
    ]
    left = len(shares) - len(drawn)
    return fill(
        "shares.html",
        policy=shares[0].policy,
        ranks=count(len(shares), "rank"),
        order="in their shuffled order" if shares[0].shuffled else "in the order of the files",
        left_out=f" {count(left, 'more rank')} not shown: these have the fewest steps." if left else "",
        rows=join(rows),
    )


def _level(cell: int) -> str:
    return f"s{sum(cell >= least for least, _ in _LEVELS[:-1])}"
