"""Lines are counted the same way with and without numpy."""

import pytest

from keepstep.parse.scan.lines import line_count


def test_counts_a_part_of_the_bytes():
    assert line_count.newlines(b"a\nb\nc\n", 2, 6) == 2


def test_numpy_counts_the_same(monkeypatch):
    pytest.importorskip("numpy")
    data = b"one\ntwo\r\n\n" * 2000
    plain = line_count.newlines(data, 3, len(data) - 1)
    monkeypatch.setattr(line_count, "_numpy", None)
    line_count.count_fast.cache_clear()
    line_count.count_fast()
    assert line_count.newlines(data, 3, len(data) - 1) == plain == data[3:-1].count(b"\n")
