# SPDX-License-Identifier: Apache-2.0
"""Files that want to run code while they are read: nothing that a data set says is ever executed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepstep.check.data.process import start
from keepstep.check.data.readers.zarr_codecs import refused
from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from tests.check.data.files import looked, report_on


class Acts:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self._mark),)


def zarr_array(folder: Path, **about: Any) -> None:
    """An array of Zarr 2 with one chunk."""
    folder.mkdir()
    usual = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "compressor": None, "fill_value": None}
    (folder / ".zarray").write_text(json.dumps({**usual, "order": "C", "filters": None, **about}))


def zarr_looked(folder: Path) -> UnitRead:
    return read_unit(DataUnit(str(folder), str(folder.parent), kind="zarr"), ReadRequest(values=True))


@pytest.fixture
def acting_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Registers the codec ``acts``, which makes the folder that is returned when it decodes."""
    numcodecs = pytest.importorskip("numcodecs")
    mark = tmp_path / "made"

    class Codec(numcodecs.abc.Codec):  # type: ignore[misc, name-defined]
        codec_id = "acts"

        def encode(self, buf: Any) -> Any:
            return buf

        def decode(self, buf: Any, out: Any = None) -> Any:
            mark.mkdir()
            return buf

    monkeypatch.setitem(numcodecs.registry.codec_registry, "acts", Codec)
    return mark


@pytest.mark.parametrize(
    "about", [{"filters": [{"id": "vlen-utf8"}, {"id": "acts"}]}, {"compressor": {"id": "acts"}, "dtype": "<i8"}]
)
def test_a_zarr_array_chooses_no_codec_of_its_own(tmp_path: Path, acting_codec: Path, about: dict[str, Any]) -> None:
    zarr = pytest.importorskip("zarr")
    folder = tmp_path / "data" / "a.zarr"
    folder.parent.mkdir()
    zarr_array(folder, **about)
    (folder / "0").write_bytes(bytes(16))
    assert "its codec 'acts'" in zarr_looked(folder).unread
    assert not acting_codec.exists()
    assert report_on(folder.parent).exit_status == 3
    with contextlib.suppress(TypeError, ValueError):
        zarr.open_array(str(folder), mode="r")[:]
    assert acting_codec.exists(), "zarr itself would have run it"


@pytest.mark.parametrize("name", ["pickle", "acts"])
@pytest.mark.parametrize("place", ["codecs", "shard", "index", "deep", "word", "renamed"])
def test_codecs_of_zarr_3_are_looked_at_however_deep(tmp_path: Path, name: str, place: str) -> None:
    inner: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    own = [*inner, {"name": name}]

    def shard(codecs: list[Any], index: list[Any]) -> list[Any]:
        settings = {"chunk_shape": [1], "codecs": codecs, "index_codecs": index}
        return [{"name": "sharding_indexed", "configuration": settings}]

    codecs = {
        "codecs": own,
        "shard": shard(own, inner),
        "index": shard(inner, own),
        "deep": shard(shard(own, inner), inner),
        "word": shard(["bytes", name], inner),
        "renamed": [*inner, {"name": "numcodecs.zlib", "configuration": {"id": name}}],
    }[place]
    about = {"zarr_format": 3, "node_type": "array", "shape": [2], "data_type": "int64", "fill_value": 0}
    grid = {"name": "regular", "configuration": {"chunk_shape": [2]}}
    about |= {"chunk_grid": grid, "chunk_key_encoding": {"name": "default"}, "codecs": codecs}
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    (folder / "zarr.json").write_text(json.dumps(about))
    assert f"its codec {name!r}" in zarr_looked(folder).unread


def test_what_only_one_version_of_zarr_reads_is_looked_at_too(tmp_path: Path) -> None:
    """zarr 2 goes by .zarray, zarr 3 by zarr.json."""
    folder = tmp_path / "a.zarr"
    zarr_array(folder, filters=[{"id": "pickle"}])
    (folder / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "array", "codecs": ["bytes"]}))
    assert "its codec 'pickle'" in zarr_looked(folder).unread


@pytest.mark.parametrize("dtype", ["|O", "<O8", [["a", "|O"]], [["a", [["b", "|O", [2]]]]]])
def test_objects_need_a_codec_that_only_computes(dtype: Any) -> None:
    assert "Python objects" in refused({"dtype": dtype, "filters": [{"id": "delta"}]})
    assert not refused({"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "zstd"}})


@pytest.mark.parametrize("codec", [7, None, ["x"], {}, {"id": None}, {"id": ["pickle"]}, {"name": {}}])
def test_what_is_no_codec_is_refused(codec: Any) -> None:
    assert refused({"dtype": "<f4", "filters": [codec]}) or codec is None


ONCE_A_READER_HAS_BEGUN = """
import os, sys
from numcodecs import pickles, registry
pickles.ALLOW_UNSAFE_PICKLE_DECODE = True
payload = b"cos\\nmkdir\\n(V" + os.fsencode(sys.argv[1]) + b"\\ntR."
pickles.Pickle().decode(payload)
os.rmdir(sys.argv[1])
from keepstep.check.data.readers.zarr_codecs import forbid_pickles
forbid_pickles()
forbid_pickles()
for attempt in (lambda: pickles.Pickle().decode(payload), lambda: registry.get_codec({"id": "pickle"})):
    try:
        attempt()
    except ValueError:
        continue
    sys.exit(1)
sys.exit(os.path.exists(sys.argv[1]))
"""


def test_numcodecs_cannot_unpickle_once_a_reader_has_begun(tmp_path: Path) -> None:
    """In a process of its own, since it is for good."""
    pytest.importorskip("numcodecs")
    subprocess.run([sys.executable, "-c", ONCE_A_READER_HAS_BEGUN, str(tmp_path / "made")], check=True, timeout=60)


def test_good_zarr_arrays_of_text_and_with_shards_are_still_read(tmp_path: Path) -> None:
    zarr, numpy = pytest.importorskip("zarr"), pytest.importorskip("numpy")
    if not hasattr(zarr, "create_array"):
        pytest.skip("zarr 2 has another way to make arrays")
    made = zarr.create_array(str(tmp_path / "s.zarr"), shape=(8,), chunks=(2,), shards=(4,), dtype="f4")
    made[:] = 1
    text = zarr.create_array(str(tmp_path / "t.zarr"), shape=(2,), chunks=(2,), dtype=str, zarr_format=2)
    text[:] = numpy.array(["a", "b"], dtype=object)
    for name, records in (("s.zarr", 8), ("t.zarr", 2)):
        found = zarr_looked(tmp_path / name)
        assert (found.records, len(found.bad), found.unread) == (records, 0, ""), name


def test_pickles_in_archives_shards_and_files_of_torch_stay_closed(tmp_path: Path) -> None:
    data, mark = tmp_path / "data", tmp_path / "made"
    data.mkdir()
    payload = pickle.dumps(Acts(mark))
    with tarfile.open(data / "a.tar", "w") as made:
        for name in ("0.pyd", "0.pickle", "0.pkl", "0.pth", "0.ten"):
            info = tarfile.TarInfo(name)
            info.size = len(payload)
            made.addfile(info, io.BytesIO(payload))
    for name in ("a.pt", "a.pkl", "a.pickle", "a.pth", "a.bin", "a.mdb", "a.npy"):
        (data / name).write_bytes(payload)
    item = struct.pack("<I", len(payload)) + payload
    shard = struct.pack("<III", 1, 12, 12 + len(item)) + item
    (data / "mds").mkdir()
    (data / "mds" / "shard.00000.mds").write_bytes(shard)
    about = {"column_names": ["x"], "column_encodings": ["pkl"], "column_sizes": [None], "format": "mds", "samples": 1}
    about["raw_data"] = {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}}
    (data / "mds" / "index.json").write_text(json.dumps({"version": 2, "shards": [about]}))
    report = report_on(data, *(data / name for name in ("a.pt", "a.pkl")), asked=ReadRequest(values=True))
    assert not report.crashed and not mark.exists()


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_type_that_is_a_pickle_is_not_made(tmp_path: Path, ending: str) -> None:
    """CVE-2023-47248: pyarrow before 14.0.1 opened it."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    mark, path = tmp_path / "made", tmp_path / f"a.{ending}"
    about = {b"ARROW:extension:name": b"arrow.py_extension_type"}
    about[b"ARROW:extension:metadata"] = pickle.dumps(Acts(mark), protocol=0)
    schema = arrow.schema([arrow.field("x", arrow.int64(), metadata=about)])
    table = arrow.table({"x": [1, 2]}, schema=schema)
    if ending == "parquet":
        parquet.write_table(table, path)
    else:
        with arrow.ipc.new_file(str(path), schema) as writer:
            writer.write_table(table)
    assert b"py_extension_type" in path.read_bytes() or ending == "parquet"
    found = looked(path, values=True)
    assert not mark.exists()
    assert found.records == 2


def test_an_image_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostScript under the name of a photo: Pillow would call Ghostscript."""
    image = pytest.importorskip("PIL.Image")
    mark, tools = tmp_path / "made", tmp_path / "tools"
    tools.mkdir()
    for name in ("gs", "gswin32c"):
        (tools / name).write_text(f"#!/bin/sh\nmkdir {mark}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    text = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    path = tmp_path / "a.jpg"
    path.write_bytes(struct.pack("<IIIIIIIH", 0xC6D3D0C5, 32, len(text), 0, 0, 0, 0, 0xFFFF).ljust(32, b"\0") + text)
    assert [bad.kind for bad in looked(path).bad.first] == ["corrupt"]
    assert not mark.exists()
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    with image.open(path) as opened, contextlib.suppress(subprocess.CalledProcessError):
        opened.load()
    assert mark.exists(), "Pillow itself would have started it"


def test_hdf5_loads_no_plug_in_from_just_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []
    monkeypatch.setattr("keepstep.check.data.process.Reader.run", lambda command, env: asked.append(env))
    for value in ("", ".", "/opt/plugins:.", "/opt/plugins", "/opt/a:/opt/b"):
        monkeypatch.setenv("HDF5_PLUGIN_PATH", value)
        start()
    monkeypatch.delenv("HDF5_PLUGIN_PATH")
    start()
    assert [env.get("HDF5_PLUGIN_PRELOAD") for env in asked] == ["::", "::", "::", None, None, "::"]


def test_an_hdf5_filter_that_is_not_here_is_no_damage(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as made:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((4,))
        settings.set_filter(32099, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(made.id, b"x", h5py.h5t.NATIVE_INT32, space, settings)
        made["x"].id.write_direct_chunk((0,), bytes(16))
    found = looked(path)
    assert "filter 32099" in found.unread and not len(found.bad)
