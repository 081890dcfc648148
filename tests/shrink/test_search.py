# SPDX-License-Identifier: Apache-2.0
"""What the search knows of a program before it has run it."""

from __future__ import annotations

from pathlib import Path

from keepstep.shrink.search import _frameworks


def test_what_the_first_run_will_import_is_imported_before_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nfrom data import Points\nimport numpy as np\n")
    (tmp_path / "data.py").write_text("from torch.utils.data import Dataset\n")
    found = _frameworks(str(script), str(tmp_path))
    assert found == {"numpy", "torch", "torch.utils.data", "torch._dynamo"}
