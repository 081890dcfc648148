# SPDX-License-Identifier: Apache-2.0
"""Wrong programs of TensorFlow and JAX do what they say they show, and their right twins do not."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RUNNER = HERE / "tensorflow_and_jax.py"
CLAIMS = ("Shows: hang ", "Shows: error ", "Shows: differs ")
PAIRS = [
    pair
    for pair in sorted((HERE / "programs").glob("*/COD*"))
    for main in ("wrong.py", "wrong/train.py")
    if (pair / main).exists()
    for line in (pair / main).read_text().splitlines()
    if line.startswith(CLAIMS) and line.split()[4].rstrip(":") in ("tensorflow", "jax")
]


@pytest.fixture(scope="module")
def happened() -> dict[str, tuple[str, str]]:
    """What the runner says of each pair, and the lines below it."""
    if not (find_spec("tensorflow") and find_spec("jax")):
        pytest.skip("needs TensorFlow and JAX")
    done = subprocess.run([sys.executable, str(RUNNER)], capture_output=True, text=True, timeout=7200)
    assert done.stdout, done.stderr
    said: dict[str, tuple[str, str]] = {}
    name = ""
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            verdict, _, rest = line.partition(" ")
            name = rest.partition(":")[0]
            said[name] = (verdict, "")
        said[name] = (said[name][0], said[name][1] + line + "\n")
    return said


@pytest.mark.long
@pytest.mark.frameworks
@pytest.mark.parametrize("pair", PAIRS, ids=lambda path: path.name)
def test_a_wrong_program_misbehaves_and_its_right_twin_does_not(
    pair: Path, happened: dict[str, tuple[str, str]]
) -> None:
    verdict, lines = happened[pair.name]
    if verdict == "skips":
        pytest.skip(lines)
    assert verdict == "holds", lines
