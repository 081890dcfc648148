# SPDX-License-Identifier: Apache-2.0
"""Readers of data files on torn and changed bytes: whatever they find, they return it, and every result is a report."""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from pathlib import Path

from hypothesis import strategies as st

from keepstep.check.checkup import judge
from keepstep.check.data.find.walk import walk
from keepstep.check.data.formats import FORMATS
from keepstep.check.data.reading import read_unit
from keepstep.check.data.report.manifest import Manifest
from keepstep.check.data.report.summary import Summary
from keepstep.check.data.units import DataUnit, ReadRequest, looked_from, to_plain
from keepstep.parse.formats.data import example_proto, npy_header, tar_header
from keepstep.parse.formats.data.tfrecord import Walk
from tests.check.data.samples import SAMPLES, npy, tar
from tests.fuzz.fuzzing import target, torn


def _files(kind: str) -> dict[str, bytes]:
    """The good files of a format, by name; none where its library is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            SAMPLES[kind](Path(folder))
        except ImportError:
            return {}
        found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}


FILES = {(kind, name): data for kind in FORMATS if kind in SAMPLES for name, data in _files(kind).items()}
"""Of every format: test_every_format.py demands a sample for each."""


@target(st.sampled_from(sorted(FILES)).flatmap(lambda key: st.tuples(st.just(key), torn(FILES[key]))), examples=100)
def test_any_bytes_in_a_file_of_any_format_give_a_result(made: tuple[tuple[str, str], bytes]) -> None:
    (kind, torn_name), data = made
    with tempfile.TemporaryDirectory() as folder:
        for (of, name), good in FILES.items():
            if of == kind:
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data if name == torn_name else good)
        summary = Summary(ReadRequest(classes=3))
        for unit in walk([folder]):
            if isinstance(unit, DataUnit):
                found = read_unit(unit, ReadRequest(values=True, classes=3))
                assert "the reader failed" not in found.unread, found.unread
                assert looked_from(json.loads(json.dumps(to_plain(found)))) is not None
                summary.add(unit, found)
        assert not judge(summary.collected(0)).crashed


@target(torn(b"\n\x0e\n\x0c\n\x01x\x12\x07\x12\x05\n\x03abc"), examples=60)
def test_examples_from_any_bytes(data: bytes) -> None:
    try:
        found = example_proto.features(data)
    except example_proto.NotAnExample:
        return
    for feature in found.values():
        assert feature.count >= 0


@target(torn(npy()), examples=60)
def test_array_headers_from_any_bytes(data: bytes) -> None:
    try:
        npy_header.read_header(data)
    except npy_header.NotNpy:
        return


@target(torn(tar()[:512]).map(lambda data: data[:512].ljust(512, b"\0")), examples=60)
def test_tar_headers_from_any_bytes(block: bytes) -> None:
    try:
        assert tar_header.read_header(block).size >= 0
    except tar_header.NotAHeader:
        return


@target(st.lists(st.binary(max_size=60), max_size=8), examples=60)
def test_a_walk_over_any_pieces_ends(pieces: list[bytes]) -> None:
    walk = Walk(lambda data, value=0: zlib.crc32(data, value))
    for piece in pieces:
        walk.feed(piece)
    walk.end()
    assert walk.records >= 0


@target(
    torn(b'{"schema": "keepstep.data-manifest/1"}\n{"file": "/a", "size": 1, "looked": {"format": 3}}\n'), examples=40
)
def test_a_manifest_of_any_bytes_answers_or_is_refused(data: bytes) -> None:
    from keepstep.errors import UserError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifest"
        path.write_bytes(data)
        try:
            manifest = Manifest(path, ReadRequest())
        except UserError:
            return
        assert manifest.result(DataUnit("/a", "/", 1)) is None or os.path.exists(path)
