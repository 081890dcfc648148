# SPDX-License-Identifier: Apache-2.0
"""One run that failed, for all tests that only look."""

from __future__ import annotations

import pytest

from tests.supervise.starting import Running
from tests.watch.real_runs import start


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Running:
    run = start(tmp_path_factory.mktemp("failed"), "error")
    assert run.finish() == 1
    return run
