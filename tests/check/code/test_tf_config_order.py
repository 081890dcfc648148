# SPDX-License-Identifier: Apache-2.0
"""COD211 over several files: a strategy that is created at import, and a TF_CONFIG that comes before it after all."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.check.code.check_code import CodeRequest, check_code

STRATEGY = "import tensorflow as tf\n\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
TASK = "import os\n\ndef join(text):\n    os.environ['TF_CONFIG'] = text\n"
MAIN = "def main(text):\n    task.join(text)\n\nif __name__ == '__main__':\n    main('{}')\n"
EARLY = "import task\ntask.join('{}')\n"
CHOICE = "import os\nimport tensorflow as tf\n\nif 'TF_CONFIG' in os.environ:\n    {}\n"


def found_in(folder: Path, files: dict[str, str]) -> list[tuple[str, int | None]]:
    for name, text in files.items():
        (folder / name).write_text(text)
    report = check_code(CodeRequest(paths=(folder,), select=("COD211",))).report
    assert not report.crashed
    return [(Path(each.evidence[0].origin.source).name, each.evidence[0].origin.line) for each in report.findings]


def test_a_strategy_that_exists_after_the_import_is_too_early(tmp_path: Path) -> None:
    files = {"shared.py": STRATEGY, "task.py": TASK, "train.py": "import shared\nimport task\n\n" + MAIN}
    assert found_in(tmp_path, files) == [("task.py", 4)]


@pytest.mark.parametrize(
    ("shared", "train"),
    [
        (STRATEGY, "import task\n\n" + MAIN.replace("(text)\n\n", "(text)\n    import shared\n\n")),
        (STRATEGY, "import early\nimport shared\nimport task\n\n" + MAIN),
        (STRATEGY, "import task\n\n" + MAIN),
        (CHOICE.format(STRATEGY.rpartition("\n\n")[2].strip()), "import shared\nimport task\n\n" + MAIN),
    ],
    ids=["imported in the function", "set at import, too", "not imported at all", "created only with TF_CONFIG"],
)
def test_a_strategy_that_may_come_later_is_left_alone(shared: str, train: str, tmp_path: Path) -> None:
    files = {"shared.py": shared, "task.py": TASK, "train.py": train}
    assert found_in(tmp_path, {**files, "early.py": EARLY} if "early" in train else files) == []
