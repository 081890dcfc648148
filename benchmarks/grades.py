# SPDX-License-Identifier: Apache-2.0
"""How often the first finding's cause is right, by how sure keepstep says it is.

``python -m benchmarks.grades [CASES ...]``: folders of labelled failures (by default ``../shared/cases``), the lab's
recordings, and the small logs of the tests. A case is a folder with ``case.json`` (``cause``, ``also_accept``) and the
run's output as ``*.txt``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Confidence
from keepstep.model.report import Report
from keepstep_lab.record import replay
from keepstep_lab.scenarios import SCENARIOS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[1]
RECORDINGS = REPOSITORY / "tests" / "recordings"
SMALL_LOGS = REPOSITORY / "tests" / "rules" / "labelled"
BARS = {Confidence.ESTABLISHED: 0.98, Confidence.SUPPORTED: 0.90}


@dataclass(frozen=True)
class Answer:
    """What keepstep said first about one labelled run. ``expected`` is empty where it was healthy."""

    name: str
    of: str
    expected: frozenset[str]
    report: Report

    @property
    def grade(self) -> Confidence | None:
        return self.report.root.confidence if self.report.root else None

    @property
    def right(self) -> bool:
        root = self.report.root
        return root.cause.value in self.expected if root else not self.expected

    def __str__(self) -> str:
        root = self.report.root
        said = f"{root.rule} {root.cause.value}, {root.confidence.value}" if root else "nothing"
        return f"- {self.name}: {' or '.join(sorted(self.expected)) or 'nothing'}; said: {said}"


def of_cases(folder: Path) -> Iterator[Answer]:
    """Each case is read from a neutral folder, without its label."""
    for labelled in sorted(folder.glob("*/case.json")):
        case = json.loads(labelled.read_text())
        with tempfile.TemporaryDirectory() as place:
            for log in labelled.parent.glob("*.txt"):
                shutil.copy(log, place)
            report = explain_paths([Path(place)]).report
        yield Answer(labelled.parent.name, "cases", frozenset({case["cause"], *case.get("also_accept", ())}), report)


def of_recordings() -> Iterator[Answer]:
    """What only the guard or a check can find may stay without an answer; one that is given counts."""
    for folder in sorted(RECORDINGS.iterdir()):
        scenario = SCENARIOS[folder.name]
        report = replay(folder)
        if scenario.later is None or report.root is not None:
            yield Answer(folder.name, "recordings", scenario.accepted, report)


def of_small_logs() -> Iterator[Answer]:
    """Runs of a few lines each: messages that misname their cause, and silent degradation."""
    for path in sorted(SMALL_LOGS.glob("*.toml")):
        for run in tomllib.loads(path.read_text())["run"]:
            with tempfile.TemporaryDirectory() as place:
                for name, text in run["logs"].items():
                    Path(place, f"{name}.log").write_text(text)
                report = explain_paths([Path(place)]).report
            expected = frozenset({run["cause"], *run.get("also", ())} - {""})
            yield Answer(run["name"], "small logs", expected, report)


def table(answers: list[Answer]) -> str:
    groups = sorted({answer.of for answer in answers})
    lines = [f"| grade | {' | '.join(groups)} | right | bar |", f"|---{'|---' * len(groups)}|---|---|"]
    for grade in (*Confidence, None):
        graded = [answer for answer in answers if answer.grade is grade]
        if not graded:
            continue
        cells = [_share([answer for answer in graded if answer.of == group]) for group in groups]
        part, bar = sum(answer.right for answer in graded) / len(graded), BARS.get(grade) if grade else None
        kept = f"{bar:.0%}, {'kept' if part >= bar else 'missed'}" if bar else ""
        lines.append(f"| {grade.value if grade else 'no finding'} | {' | '.join(cells)} | {part:.1%} | {kept} |")
    return "\n".join(lines)


def _share(answers: list[Answer]) -> str:
    return f"{sum(answer.right for answer in answers)} of {len(answers)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path, nargs="*", default=[REPOSITORY.parent / "shared" / "cases"])
    folders = parser.parse_args().cases
    answers = [*of_recordings(), *of_small_logs(), *(answer for folder in folders for answer in of_cases(folder))]
    print(f"# How often each grade is right\n\nMade by `make bench`, over {len(answers)} labelled runs.\n")
    print(table(answers))
    if wrong := [answer for answer in answers if not answer.right]:
        print("\nWrong (expected; said):\n")
        print("\n".join(map(str, wrong)))


if __name__ == "__main__":
    main()
