# SPDX-License-Identifier: Apache-2.0
"""Who has to go where too many have connected and proved nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keepstep.sources.host.visitors import Visitors


def test_the_one_that_came_first_goes() -> None:
    visitors: Visitors[int] = Visitors(3)
    assert [visitors.come(number, "10.0.0.1") for number in range(5)] == [None, None, None, 0, 1]
    visitors.gone(3)
    assert visitors.come(5, "10.0.0.1") is None
    assert list(visitors) == [2, 4, 5]


@pytest.mark.parametrize(
    "stranger",
    [lambda n: "10.0.0.9", lambda n: "::ffff:10.0.0.9", lambda n: f"fd00::{n:x}", lambda n: f"fe80::{n}%eth0"],
)
def test_one_host_takes_only_places_of_its_own(stranger: Callable[[int], str]) -> None:
    visitors: Visitors[str] = Visitors(8)
    visitors.come("a rank", "10.0.0.1")
    visitors.come("another", "fd01::1")
    for number in range(50):
        visitors.come(f"stranger {number}", stranger(number))
    assert "a rank" in visitors and "another" in visitors
    assert len(visitors) == 8 and "stranger 49" in visitors


def test_a_listener_without_room_may_ask_who_goes() -> None:
    visitors: Visitors[int] = Visitors(3)
    assert visitors.leave_first() is None
    visitors.come(1, "unreadable address")
    assert visitors.leave_first() == 1 and len(visitors) == 0
