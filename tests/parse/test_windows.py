# SPDX-License-Identifier: Apache-2.0
"""Exit codes of Windows."""

from __future__ import annotations

import pytest

from keepstep.parse.tools.system.windows import SIGNATURES, struck


@pytest.mark.parametrize(
    "code, signal",
    [(3221225477, "SIGSEGV"), (-1073741819, "SIGSEGV"), (3221226505, "SIGABRT"), (1, None), (139, None), (-11, None)],
)
def test_an_exit_code_is_a_signal_in_both_spellings(code, signal):
    assert struck(code) == signal


@pytest.mark.parametrize(
    "text",
    [
        "Command '['python.exe']' returned non-zero exit status 3221225477.",
        "Process finished with exit code -1073741819 (0xC0000005)",
        "worker exited unexpectedly with exit code 0xC0000005",
    ],
)
def test_the_words_around_it_do_not_matter(text):
    assert [fact.signal for each in SIGNATURES if (fact := each.read(text)) is not None] == ["SIGSEGV"]


def test_other_numbers_are_not_read():
    assert not [fact for each in SIGNATURES if (fact := each.read("the task exited with code 3221000000")) is not None]


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading cublas64_12.dll",
        "ImportError: DLL load failed while importing _x: Die Auslagerungsdatei ist zu klein, um diesen Vorgang durchzuführen.",
        "OSError: [WinError 1455] 页面文件太小，无法完成操作。",
        "OSError: Le fichier de pagination est insuffisant pour terminer cette opération.",
    ],
)
def test_used_up_memory_is_read_in_the_languages_of_windows(text):
    assert [type(fact).__name__ for each in SIGNATURES if (fact := each.read(text)) is not None] == [
        "HostAllocationFailed"
    ]
