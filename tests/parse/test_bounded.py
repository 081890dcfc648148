# SPDX-License-Identifier: Apache-2.0
"""What becomes of a table's pattern when it is compiled: the same messages match, hostile ones cost nothing."""

from __future__ import annotations

import re

import pytest

from keepstep.parse.scan.bounded import bounded, narrowed


def found(pattern: str, text: str) -> str | None:
    match = re.search(bounded(pattern), narrowed(text))
    return match[0] if match else None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("Address already in use", "OSError: Address already\n   in use"),
        ("Address already in use", "OSError: Address" + " " * 400 + "already in use"),
        (r"states? [^\n]{0,120}? but current", "to be in states [A, B] but current"),
        (r"states? [^\n]{0,120}? but current", "to be in state   A,\n   but current"),
        (r"(?P<name>[\w.]+) is not there", "the file model.safetensors is not there"),
        (r"(?:(?P<library>[^\s:]+): )?undefined symbol", "/usr/lib/libfoo.so: undefined symbol"),
        (r"(?:(?P<library>[^\s:]+): )?undefined symbol", "undefined symbol"),
        (r"preempt\w*[^\n]{0,40}: received", "preempted by somebody: received"),
        (r"(?<!not a )word", "such a word"),
        (r"a[ x]b ?c {2}d +e", "a bc  d     e"),
        (r"(?i)ERROR in rank \d+", "error in rank 3"),
        (r"(?:\w+\.)*\w+Error", "torch.cuda.OutOfMemoryError"),
        (r"x (?:[^\n]{0,60} )?y", "x y"),
    ],
)
def test_what_matched_matches(pattern: str, text: str) -> None:
    assert found(pattern, text) is not None


def test_a_leading_word_is_found_whole() -> None:
    assert found(r"(?P<name>[\w.]+) is not there", "see model.bin is not there") == "model.bin is not there"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a b", r"a\s{1,16}b"),
        (r"\d+", r"(?<!\d)\d{1,40}"),
        (r"x\s*y", r"x\s{0,16}y"),
        (r"a[ ]b", r"a[ ]b"),
        (r"(?<=a b)c", r"(?<=a b)c"),
        (r"n=\d{1,3} ", r"n=\d{1,3}\s{1,16}"),
        (r"a [^\n]{0,60} b", r"a\s{1,16}(?!\s)[^\n]{0,60}(?<!\s)\s{1,16}b"),
        (r"a\w*[^\n]{0,60}b", r"a\w*(?!\w)[^\n]{0,60}b"),
        (r"(?:\w+ )+x", r"(?:\w+\s{1,16})+x"),
        (r"a (?=(.{0,60}b))", r"a\s{1,16}(?!\s)(?=(.{0,60}b))"),
        (r"[]^ ]{0,3}[a\] ] x", r"[]^ ]{0,3}[a\] ]\s{1,16}x"),
    ],
)
def test_how_it_is_written(before: str, after: str) -> None:
    assert bounded(before) == after


def test_padding_is_narrowed_and_little_else() -> None:
    assert narrowed("a" + " " * 100 + "b") == "a       b"
    assert narrowed("a   b\n  c") == "a   b\n  c"
