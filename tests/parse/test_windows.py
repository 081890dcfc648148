# SPDX-License-Identifier: Apache-2.0
"""Exit codes of Windows."""

from __future__ import annotations

import pytest

from keepstep.parse.tools.system.windows import struck


@pytest.mark.parametrize(
    "code, signal",
    [(3221225477, "SIGSEGV"), (-1073741819, "SIGSEGV"), (3221226505, "SIGABRT"), (1, None), (139, None), (-11, None)],
)
def test_an_exit_code_is_a_signal_in_both_spellings(code, signal):
    assert struck(code) == signal
