# SPDX-License-Identifier: Apache-2.0
"""A user's signatures may come from anywhere: what `keepstep rules` shows of them cannot control a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.base.visible import visible
from keepstep.cli.parser import run


def test_the_words_of_a_signature_are_spelled_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "own.toml").write_text(
        '[[signature]]\nname = "ours"\npattern = "boom of ours"\ncause = "user.code_exception"\n'
        'title = "boom \\u001b]0;owned\\u0007"\nbecause = "it \\u202e did"\n'
    )
    (tmp_path / "keepstep.toml").write_text('[rules]\nfolder = "rules"\n')
    for words in (["list"], ["list", "--json"]):
        assert run(["rules", "--config", str(tmp_path / "keepstep.toml"), *words]) == 0
        said = capsys.readouterr()
        assert "boom" in said.out and visible(said.out) == said.out and visible(said.err) == said.err
