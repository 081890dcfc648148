# SPDX-License-Identifier: Apache-2.0
"""What is handed over says nothing about who ran it, and is still the same program."""

from __future__ import annotations

import pytest

from keepstep.shrink import result
from keepstep.shrink.other_packages import package_differences


def test_a_users_name_goes_but_a_name_that_programs_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "margaret")
    assert result.without_private("path = '/data/margaret/run'") == "path = '/data/user/run'"
    monkeypatch.setenv("LOGNAME", "root")
    assert result.without_private("store = Store(args.root)") == "store = Store(args.root)"


def test_packages_that_differ_from_where_it_works_are_listed() -> None:
    text = "numpy==1.26.4\nTorch==2.12.0\nsame_one==1\n-e git+https://host/thing#egg=thing\n"
    here = {"numpy": "2.4.6", "torch": "2.13.0", "same-one": "1", "extra": "3"}
    assert package_differences(text, here, ["torch==2.13.0"]) == [
        "torch 2.13.0 here, 2.12.0 there",
        "extra 3 here, not installed there",
        "numpy 2.4.6 here, 1.26.4 there",
    ]
