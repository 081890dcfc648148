# SPDX-License-Identifier: Apache-2.0
"""Limits and notices in keepstep.toml: what counts, and what only counts from a file that the user named."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.extend.run_settings import DEFAULTS, RunSettings, read_run_settings
from keepstep.signals.thresholds import Threshold
from keepstep.store.history.readings import READINGS

FULL = """
[[threshold]]
reading = "host_memory_share"
above = 0.8
for = "1m"
clear = 0.7
forecast = "10m"
do = ["webhook", "stop"]

[notices]
webhook = "http://127.0.0.1:9/hook"
on = ["hang"]
no_progress = "5m"
"""


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "keepstep").mkdir(parents=True)
    return tmp_path / "home" / "keepstep" / "config.toml"


def read(tmp_path: Path, text: str, *, named: bool = True) -> RunSettings:
    path = tmp_path / "keepstep.toml"
    path.write_text(text)
    return read_run_settings(path if named else None, tmp_path, READINGS)


def test_a_named_file_may_do_everything(tmp_path: Path) -> None:
    found = read(tmp_path, FULL)
    assert found.thresholds[0] == Threshold(
        "host_memory_share", 0.8, for_s=60, clear=0.7, forecast_s=600, do=("warn", "webhook", "stop")
    )
    assert [each.reading for each in found.thresholds].count("host_memory_share") == 1, "it replaces the default"
    assert found.notices.webhook and found.notices.on == ("hang",) and found.notices.no_progress_s == 300


def test_a_pause_is_bounded_by_five_minutes_or_as_the_user_says(tmp_path: Path) -> None:
    row = '[[threshold]]\nreading = "gpu_celsius"\nabove = 80\ndo = ["pause"]\n'
    assert read(tmp_path, row).thresholds[0].pause_s == 300
    assert read(tmp_path, f'{row}pause = "2m"\n').thresholds[0].pause_s == 120
    assert read(tmp_path, row, named=False).thresholds[0].do == ("warn",)


def test_a_file_that_was_merely_found_may_only_warn(tmp_path: Path) -> None:
    found = read(tmp_path, FULL, named=False)
    assert found.thresholds[0].limit == 0.8 and found.thresholds[0].do == ("warn",)
    assert not found.notices.any
    assert "stop, webhook, [notices] needs `--config keepstep.toml`" in found.problems[0]


def test_the_users_own_configuration_may_do_everything(tmp_path: Path, own_settings: Path) -> None:
    own_settings.write_text('[notices]\nslack = "http://127.0.0.1:9/slack"\n')
    found = read(tmp_path, FULL, named=False)
    assert found.notices.slack and not found.notices.webhook


def test_others_can_change_it_so_it_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "keepstep.toml").touch(mode=0o666)
    (tmp_path / "keepstep.toml").chmod(0o666)
    found = read(tmp_path, FULL, named=False)
    assert found.thresholds == DEFAULTS and "other users can change it" in found.problems[0]


def test_a_default_can_be_switched_off(tmp_path: Path) -> None:
    found = read(tmp_path, '[[threshold]]\nreading = "shm_share"\ndo = []\n')
    assert [row.do for row in found.thresholds if row.reading == "shm_share"] == [()]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[threshold]]\nreading = "host_memory_shar"\nabove = 1', "did you mean host_memory_share?"),
        ('[[threshold]]\nreading = "swap"', "either above or below"),
        ('[[threshold]]\nreading = "swap"\nabove = "x"', "must be a number"),
        ('[[threshold]]\nreading = "swap"\nabove = 1\nfor = "soon"', "must be a time"),
        ('[[threshold]]\nreading = "swap"\nabove = 1\ndo = ["explode"]', "do is a list of"),
        ('[[threshold]]\nreading = "swap"\nover = 1', "no setting 'over'"),
        ('[notices]\nwebhook = "ftp://x"', "http"),
        ('[notices]\non = ["lunch"]', "hang"),
        ("threshold = 3", "[[threshold]]"),
        ("[", "TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError, match=says.replace("[", r"\[").replace("?", r"\?")):
        read(tmp_path, text)
    assert read(tmp_path, text, named=False).problems, "and stops nothing where nobody named the file"


def test_every_default_is_a_reading() -> None:
    assert {row.reading for row in DEFAULTS} <= READINGS.keys()
