# SPDX-License-Identifier: Apache-2.0
"""Several replicas in one process of TensorFlow: the device whose loss was not finite first is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths

SCRIPT = Path(__file__).with_name("tf_lost_replica.py")


@pytest.mark.frameworks("tensorflow")
@pytest.mark.slow
@pytest.mark.parametrize("how", ["graph", pytest.param("eager", marks=pytest.mark.long)])
def test_the_device_whose_loss_was_lost_first_is_named(how: str, tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
    env |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_COMPANION": "off"}
    env |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = subprocess.run([sys.executable, str(SCRIPT), how], env=env, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert "keepstep: the loss has been NaN or infinite since step 13, on device CPU:1 first" in ended.stderr
    (found,) = [each for each in explain_paths([tmp_path]).report.findings if each.rule == "NUM202"]
    assert found.title == "the loss became NaN or infinite after step 12, first on CPU:1"
