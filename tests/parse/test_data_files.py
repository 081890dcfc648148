# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import CorruptData
from keepstep.parse import data_files
from keepstep.parse.signature import Signature


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = data_files.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "OSError: cannot identify image file <_io.BufferedReader name='train/n0166/a.JPEG'>",
            CorruptData(what="cannot identify image file", path="train/n0166/a.JPEG"),
        ),
        (
            "OSError: image file is truncated (12 bytes not processed)",
            CorruptData(what="image file is truncated"),
        ),
        ("zipfile.BadZipFile: File is not a zip file", CorruptData(what="BadZipFile")),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "libpng warning: iCCP: known incorrect sRGB profile",
        "RuntimeError: checkpoint.pth: Compressed file ended before the end-of-stream marker was reached",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []
