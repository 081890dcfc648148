# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import CorruptData
from keepstep.core.facts.sync import SharedStateRace
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.programs import data_files
from keepstep.parse.tools.programs import data_files as table


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
        ("tarfile.ReadError: invalid compressed data", CorruptData(what="tarfile.ReadError")),
        ("OSError: Invalid data stream", CorruptData(what="OSError: Invalid data stream")),
        (
            'RuntimeError: invalid hash value (expected "f37072fd", got "9c2a")',
            CorruptData(what="invalid hash value (expected"),
        ),
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


FURTHER = [
    (
        'Error writing "psi/0.0.0" in OCDBT database at local file "/c/0/ocdbt.process_0/": Configuration mismatch on uuid: expected "c7" but',
        SharedStateRace,
        {"path": "/c/0/ocdbt.process_0/"},
    ),
    (
        "FileNotFoundError: [Errno 2] Failed to open local file '/c/json/default-99ab/cache-3f2a9917cc.arrow'. Detail: [errno 2]",
        SharedStateRace,
        {},
    ),
    (
        "FileExistsError: [Errno 17] File exists: '/000000_locals'",
        SharedStateRace,
        {"path": "000000_locals"},
    ),
    (
        "FileNotFoundErrorFileNotFoundError: [Errno 2] No such file or directory: '/h/.cache/torch/hub/main.zip': ",
        SharedStateRace,
        {"path": "/h/.cache/torch/hub/main.zip"},
    ),
    (
        "FileNotFoundError: [Errno 2] No such file or directory: '/h/.cache/torch/hub/checkpoints/r50-0676.pth.1f2e.partial'",
        SharedStateRace,
        {},
    ),
    (
        "OSError: Unable to open file (unable to lock file, errno = 11, error message = 'Resource temporarily unavailable')",
        SharedStateRace,
        {},
    ),
    (
        "OSError: Unable to create file (unable to open file: name = '/d/00040.h5', errno = 17, error message = 'File exists', flags = 15)",
        SharedStateRace,
        {"path": "/d/00040.h5"},
    ),
    ("OSError: Unable to open object (bad heap free list)", CorruptData, {}),
    (
        "cv2.error: OpenCV(4.5.1) color.cpp:182: error: (-215:Assertion failed) !_src.empty() in function 'cvtColor'",
        CorruptData,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


FURTHER_NEAR = [
    'Downloading: "https://github.com/x/y/zipball/main" to /h/.cache/torch/hub/main.zip',
    "FileNotFoundError: [Errno 2] No such file or directory: '/h/.cache/torch/hub/y_main/hubconf.py'",
    "WARNING | loader | failed to decode sample 18 (UnidentifiedImageError)",
    "OSError: image file is truncated (5 bytes not processed), skipping 12.jpg",
    "handling webdataset error (OSError('image file is truncated (12 bytes not processed)'))",
]


@pytest.mark.parametrize("text", FURTHER_NEAR)
def test_a_further_near_miss_says_nothing(text, read):
    assert read(table, text) == []
