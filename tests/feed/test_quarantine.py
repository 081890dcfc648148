# SPDX-License-Identifier: Apache-2.0
"""The list of bad records, as numbers that a shard skips."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.feed.quarantine import SCHEMA, quarantined
from keepstep.feed.shard import shard

FILES = [("/data/a.tfrecord", 10), ("/data/b.tfrecord", 5), ("/data/c.tfrecord", 8)]


def _listed(folder: Path, *entries: dict[str, object]) -> Path:
    target = folder / "bad.json"
    target.write_text(json.dumps({"schema": SCHEMA, "files": entries}))
    return target


def test_records_are_numbered_over_all_files(tmp_path: Path) -> None:
    listed = _listed(
        tmp_path,
        {"file": "/data/a.tfrecord", "whole_file": False, "records": [3, 7], "ends_at_record": None},
        {"file": "b.tfrecord", "whole_file": True, "records": [], "ends_at_record": None},
        {"file": "/data/c.tfrecord", "whole_file": False, "records": [1], "ends_at_record": 6},
    )
    skip = quarantined(listed, FILES)
    assert skip == [3, 7, 10, 11, 12, 13, 14, 16, 21, 22]
    own = shard(23, batch=2, rank=0, ranks=1, skip=skip)
    assert sorted(own) == sorted(set(range(23)) - set(skip))


def test_a_file_that_is_not_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"other\.tfrecord"):
        quarantined(_listed(tmp_path, {"file": "/data/other.tfrecord", "whole_file": True}), FILES)
    twice = [("/one/a.tfrecord", 1), ("/two/a.tfrecord", 1)]
    with pytest.raises(UserError, match="not among"):
        quarantined(_listed(tmp_path, {"file": "a.tfrecord", "whole_file": True}), twice)


@pytest.mark.parametrize("content", ["", "[]", '{"schema": "other/1", "files": []}', '{"schema": 1}'])
def test_what_is_no_list_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(UserError):
        quarantined(tmp_path / "bad.json", FILES)
