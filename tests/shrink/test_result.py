# SPDX-License-Identifier: Apache-2.0
"""What is handed over says nothing about who ran it, and is still the same program."""

from __future__ import annotations

import pytest

from keepstep.shrink import result


def test_a_users_name_goes_but_a_name_that_programs_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "margaret")
    assert result.without_private("path = '/data/margaret/run'") == "path = '/data/user/run'"
    monkeypatch.setenv("LOGNAME", "root")
    assert result.without_private("store = Store(args.root)") == "store = Store(args.root)"
