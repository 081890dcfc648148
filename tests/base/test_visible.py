# SPDX-License-Identifier: Apache-2.0
"""What controls a terminal or is invisible is spelled out; everything else stays."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstep.base.visible import visible


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain, é, 漢字, ⚠️, – … \ufffd", "plain, é, 漢字, ⚠️, – … \ufffd"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m \x85 \x7f \x00", r"\x9b31m \x85 \x7f \x00"),
        ("100%\rdone", r"100%\rdone"),
        ("rank\u202e3gol", r"rank\u202e3gol"),
        ("a\u200bb\u2060c\ufeff", r"a\u200bb\u2060c\ufeff"),
        ("a\u2028b", r"a\u2028b"),
        ("\U000e0041", r"\U000e0041"),
        ("\udcff\ud800", r"\xff\ud800"),
    ],
)
def test_what_acts_is_spelled_out(text: str, seen: str) -> None:
    assert visible(text) == seen


@given(st.text(st.characters()))
def test_nothing_that_acts_is_left_and_doing_it_twice_changes_nothing(text: str) -> None:
    seen = visible(text)
    assert visible(seen) == seen
    seen.encode()
    assert not {c for c in seen if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} - {"\n", "\t"}
    assert not {
        c
        for c in seen
        if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    }


def test_all_characters_without_width_are_known() -> None:
    seen = {
        *range(0x600, 0x606),
        0x6DD,
        0x70F,
        0x890,
        0x891,
        0x8E2,
        0x110BD,
        0x110CD,
    }  # marks of numbers in Arabic and its kin
    formats = [code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf" and code not in seen]
    for code in (*formats, 0xAD, 0x34F, 0x61C, *range(0x200B, 0x2010), *range(0x2060, 0x2070), 0x3164, 0xFEFF, 0xFFA0):
        assert visible(chr(code)).isascii(), hex(code)
