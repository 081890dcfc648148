# SPDX-License-Identifier: Apache-2.0
"""The rules of PyTorch's caching allocator, one by one."""

from __future__ import annotations

from keepstep.check.memory.allocator import MIB, Allocator, replay


def test_a_small_tensor_takes_512_bytes_of_a_segment_of_2_mib() -> None:
    seen = replay([(0, 1)])
    assert (seen.allocated, seen.reserved) == (512, 2 * MIB)


def test_a_tensor_above_1_mib_shares_a_segment_of_20_mib() -> None:
    seen = replay([(0, MIB + 1), (1, 8 * MIB), (2, 8 * MIB)])
    assert seen.reserved == 20 * MIB
    assert seen.allocated == MIB + 512 + 16 * MIB


def test_a_tensor_from_10_mib_on_has_a_segment_of_its_own_rounded_to_2_mib() -> None:
    assert replay([(0, 10 * MIB)]).reserved == 10 * MIB
    assert replay([(0, 10 * MIB + 1)]).reserved == 12 * MIB


def test_a_rest_of_a_large_segment_is_cut_off_only_if_it_is_more_than_1_mib() -> None:
    whole = replay([(0, 12 * MIB), (0, -12 * MIB), (1, 11 * MIB)])
    assert whole.reserved == 12 * MIB
    kept = Allocator()
    first = kept.allocate(12 * MIB)
    assert first is not None
    kept.free(first)
    second = kept.allocate(11 * MIB)
    assert second is not None and second.size == 12 * MIB


def test_freed_neighbours_are_joined_and_used_again() -> None:
    births = [(n, 5 * MIB) for n in range(4)]
    deaths = [(n, -5 * MIB) for n in (0, 2, 1, 3)]
    assert replay([*births, *deaths, (9, 19 * MIB)]).reserved == 20 * MIB


def test_gaps_cost_a_new_segment() -> None:
    births = [(n, 5 * MIB) for n in range(4)]
    seen = replay([*births, (0, -5 * MIB), (2, -5 * MIB), (9, 9 * MIB)])
    assert seen.allocated == 20 * MIB
    assert seen.reserved == 40 * MIB


def test_a_full_device_gives_back_what_is_unused_before_it_fails() -> None:
    events = [(0, 30 * MIB), (0, -30 * MIB), (1, 40 * MIB)]
    assert replay(events, room=50 * MIB).full_event is None
    full = replay([(0, 30 * MIB), (1, 40 * MIB)], room=50 * MIB)
    assert full.full_event == 1


def test_the_peak_names_what_was_alive_then() -> None:
    seen = replay([(0, 30 * MIB), (1, 20 * MIB), (1, -20 * MIB), (-1, 1), (2, 10 * MIB)])
    assert seen.live == {0: 30 * MIB, 1: 20 * MIB}


def test_of_two_blocks_of_one_size_the_segment_that_came_later_is_taken() -> None:
    """On an H200 the addresses of segments fall, and the lowest address goes first."""
    kept = Allocator()
    first, second = kept.allocate(30 * MIB), kept.allocate(30 * MIB)
    assert first is not None and second is not None
    kept.free(first)
    kept.free(second)
    again = kept.allocate(30 * MIB)
    assert again is not None and again.address == second.address
