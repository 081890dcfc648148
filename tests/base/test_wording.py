"""How ranks, counts and sizes are written."""

import pytest

from keepstep.base import wording


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([3], "rank 3"),
        ([5, 0, 2], "ranks 0, 2 and 5"),
        (range(64), "ranks 0-63"),
        ([0, 1], "ranks 0 and 1"),
        ([0, 1, 2, 7], "ranks 0-2 and 7"),
        (range(0, 40, 2), "20 ranks (0, 2, 4, ...)"),
        ([], "an unnamed rank"),
    ],
)
def test_ranks(indices, said):
    assert wording.ranks(indices) == said


def test_counts_durations_and_sizes():
    assert wording.count(1, "rank") == "1 rank"
    assert wording.count(1200, "line") == "1,200 lines"
    assert [wording.duration(s) for s in (0.44, 12, 600, 5400, 9000)] == ["0.4 s", "12 s", "10 min", "90 min", "2.5 h"]
    assert [wording.size(n) for n in (512, 1_200_000_000)] == ["512 B", "1.2 GB"]


def test_long_text_is_shortened_to_one_line():
    assert wording.shorten("a\n b" * 100, 20) == "a ba ba ba ba ba..."
    assert len(wording.shorten("x" * 500, 50)) == 50
