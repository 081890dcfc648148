"""The fast and the plain finder give the same answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstep.parse.scan import anchors

WORDS = [("Error", False), ("timed out", False), ("nans", True), ("ErrorGroup", False), ("out of", False)]


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
@given(st.lists(st.sampled_from(["Error", "Group", "timed out", "NaNs", " of memory", "x", "\n"]), max_size=30))
def test_both_finders_agree(parts):
    text = "".join(parts).encode()
    fast = anchors._Hyperscan(WORDS).find(text)
    plain = anchors._Plain(WORDS).find(text)
    assert sorted(fast) == sorted(plain)


def test_the_plain_finder_finds_overlapping_literals():
    found = anchors._Plain(WORDS).find(b"ErrorGroup timed out of")
    assert {WORDS[i][0] for i, _ in found} == {"Error", "ErrorGroup", "timed out", "out of"}
