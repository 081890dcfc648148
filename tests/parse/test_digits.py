# SPDX-License-Identifier: Apache-2.0
import re

from hypothesis import given
from hypothesis import strategies as st

from keepstep.parse.scan.lines.digits import numberless, ones, zeros


@given(st.text())
def test_every_digit_is_the_same_one_and_nothing_else_changes(text):
    assert zeros(text) == text.translate(str.maketrans("123456789", "000000000"))
    assert ones(text) == text.translate(str.maketrans("023456789", "111111111"))


@given(st.text(st.sampled_from("0159 ab/.\n")))
def test_texts_are_alike_without_their_numbers_just_when_they_differ_in_these(text):
    assert numberless(text) == "\n" + re.sub(r"[0-9]+", "0", text) + "\n"
