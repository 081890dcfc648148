# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of a newer major version than the one that loads it is said, and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.store.ledger import manifest
from keepstep.store.ledger.file_sums import sums_of
from keepstep.store.ledger.manifest import Manifest
from tests.guard.test_contracts import guard_of


@pytest.mark.parametrize(
    ("writer", "is_said"), [("pytest 99.1", True), ("pytest 1.0", False), ("unheard-of 99.1", False), ("pytest", False)]
)
def test_an_older_major_version_is_said(
    writer: str, is_said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ckpt" / "a.bin"
    path.parent.mkdir()
    path.write_bytes(b"x")
    with path.open("rb") as stream:
        files = {path.name: sums_of(stream.fileno())}
    made = Manifest(
        folder=str(path.parent), files=files, kind="torch", writer=writer, step=1, rank=0, world=1, number=1,
        together=False, made=1.0,
    )  # fmt: skip
    manifest.write(path, made)
    loads = guard_of(0, 1, tmp_path, KEEPSTEP="strict").ledger.loads(lambda path: path)
    assert loads(lambda path: "loaded")(path) == "loaded"
    said = " ".join(capsys.readouterr().err.split())
    assert ("an older version may not read it" in said) is is_said
