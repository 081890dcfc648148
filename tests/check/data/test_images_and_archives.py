# SPDX-License-Identifier: Apache-2.0
"""Images as Pillow writes them, and tar shards as WebDataset does, damaged."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests.check.data.files import cut, flip, kinds, looked, report_on, rules_of

Image = pytest.importorskip("PIL.Image")


def picture(format: str = "JPEG", size: tuple[int, int] = (64, 48)) -> bytes:
    image = Image.effect_noise(size, 60).convert("RGB")
    out = io.BytesIO()
    image.save(out, format)
    return out.getvalue()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF"])
def test_good_images_are_good(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"a.{format.lower()}"
    path.write_bytes(picture(format))
    found = looked(path)
    assert (found.format, found.records, len(found.bad)) == ("image", 1, 0)
    assert found.protected is (format == "PNG")


@pytest.mark.parametrize("format", ["JPEG", "PNG", "BMP", "WEBP", "TIFF"])
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_images_cut_short_are_found(tmp_path: Path, format: str, part: float) -> None:
    data = picture(format)
    path = tmp_path / f"a.{format.lower()}"
    path.write_bytes(data[: int(len(data) * part)])
    assert set(kinds(looked(path))) & {"truncated", "corrupt"}


def test_a_flipped_bit_in_a_png_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(picture("PNG"))
    flip(path, 300)
    assert kinds(looked(path)) == ["corrupt"]


def test_a_damaged_jpeg_header_and_a_page_of_html(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(picture())
    flip(path, 2, 0xFF)
    assert kinds(looked(path)) == ["corrupt"]
    path.write_text("<html>404</html>")
    assert kinds(looked(path)) == ["misnamed"]


def test_a_png_named_jpg_is_read_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(picture("PNG"))
    assert kinds(looked(path)) == []


def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstep.check.data.readers.image.MOST_PIXELS", 1000)
    path = tmp_path / "a.png"
    path.write_bytes(picture("PNG"))
    assert "pixels are not decoded" in looked(path).unread


def write_tar(path: Path, samples: int = 12, without: tuple[int, str] | None = None) -> None:
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(path)) as writer:
        for number in range(samples):
            parts = {"jpg": picture(), "cls": number % 5, "json": {"n": number}}
            if without is not None and without[0] == number:
                del parts[without[1]]
            writer.write({"__key__": f"sample{number:04d}", **parts})


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_good_shards_are_good(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"train-000.{ending}"
    write_tar(path)
    found = looked(path)
    assert (found.format, found.records, len(found.bad)) == ("tar", 12, 0)
    assert [f.name for f in found.fields] == ["cls", "jpg", "json"]


@pytest.mark.parametrize("by", [600, 5000, 20000])
def test_a_shard_cut_short_is_named(tmp_path: Path, by: int) -> None:
    path = tmp_path / "a.tar"
    write_tar(path)
    data = path.read_bytes().rstrip(b"\0")
    path.write_bytes(data[:-by])
    found = looked(path)
    assert [b.kind for b in found.bad.first if b.kind != "incomplete"] == ["truncated"]
    assert found.bad.first[0].offset is not None


def test_a_damaged_header_inside_a_shard_is_named_though_tarfile_ends_silently(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path)
    with tarfile.open(path) as made:
        member = made.getmembers()[10]
    flip(path, member.offset + 3)
    found = looked(path)
    assert [(b.kind, b.offset) for b in found.bad.first if b.kind != "incomplete"] == [("corrupt", member.offset)]
    with tarfile.open(path) as made:
        assert len(made.getmembers()) == 10, "Python's reader sees an archive that ends here"


def test_damaged_members_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path)
    with tarfile.open(path) as made:
        image = next(m for m in made.getmembers() if m.name == "sample0003.jpg")
        text = next(m for m in made.getmembers() if m.name == "sample0005.json")
    data = bytearray(path.read_bytes())
    data[image.offset_data + image.size - 300 : image.offset_data + image.size] = bytes(300)
    data[text.offset_data] = ord("<")
    path.write_bytes(bytes(data))
    found = looked(path)
    assert [(b.record, b.offset) for b in found.bad.first] == [(3, image.offset), (5, text.offset)]


def test_a_sample_without_its_label_is_incomplete(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write_tar(folder / "a.tar", 30, without=(7, "cls"))
    report = report_on(folder)
    assert rules_of(report) == ["DAT309"]
    assert "sample 7 is incomplete: sample0007 has no cls" in report.findings[0].title


def test_two_archives_joined_by_cat_lose_the_second(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path)
    path.write_bytes(path.read_bytes() * 2)
    assert kinds(looked(path)) == ["corrupt"]


def test_a_packed_shard_cut_short_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    write_tar(path)
    whole = path.read_bytes()
    cut(path, 100)
    assert "truncated" in kinds(looked(path))
    path.write_bytes(whole)
    flip(path, len(whole) // 2)
    assert kinds(looked(path))


def test_long_names_and_large_numbers(tmp_path: Path) -> None:
    for style in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        path = tmp_path / f"{style}.tar"
        with tarfile.open(path, "w", format=style) as made:
            for number in range(3):
                info = tarfile.TarInfo(f"{'folder/' * 30}sample{number}.{'ä' * 5}.txt")
                info.size = 4
                info.mtime = 1.5
                made.addfile(info, io.BytesIO(b"text"))
        found = looked(path)
        assert (found.records, len(found.bad)) == (3, 0)
