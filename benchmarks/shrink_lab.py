# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the lab, drawn by a seed and made smaller: is what the lab says of each still the reason?

Each is written as the program that a user would have (`lab_program`), so neither the lab's hooks nor its launcher are
part of it. It is judged as `shrink_folder` judges: the result must show one of the causes that the lab accepts, of the
ranks that the lab accepts where none has gone, and must not fail so once the fault is out. A fault in the
options of the command cannot be taken out by itself; the summary says in how many the mend found its place.

    python -m benchmarks.shrink_lab --cases 24 --seed 34 --budget 5m --jobs 8 --cores-each 2 \\
        --framework torch --framework jax --out rows.jsonl --work results

That is for 16 cores without TensorFlow: three turns of eight, each at most five minutes and a last run. Where a command
may take ten minutes only, write `timeout 590` before it, and repeat it: what has a row in OUT is passed over, what was
under way begins anew. Once all have a row it prints the summary only. Logs (`NAME.log`) and results lie in WORK.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.lab_program import LeftOut, why_left_out, write_program
from benchmarks.shrink_folder import options, series
from keepstep_lab.scenario import FRAMEWORKS, Scenario
from keepstep_lab.scenarios import SCENARIOS
from keepstep_lab.score import what_is_missing

KINDS = {
    "crash": ("user.native_crash",),
    "exception": (
        "user.code_exception",
        "data.corrupt_or_truncated",
        "data.label_out_of_range",
        "framework.unsupported_combination",
        "sync.variable_outside_strategy_scope",
    ),
    "mismatch": ("sync.collective_mismatch", "data.shape_mismatch", "data.dtype_mismatch"),
    "hang": ("sync.deadlock_or_hang_waiting_rank", "sync.multiple_threads_or_fork"),
    "NaN": ("numeric.nan_or_divergence",),
    "uneven data": ("data.sharding_uneven_or_empty", "data.batch_not_divisible"),
}


def drawn(cases: int, seed: int, frameworks: list[str], programs: Path) -> list[Path]:
    """The programs, each kind in turn and in it each framework; what was left out is printed."""
    luck, left_out = random.Random(seed), Counter[str]()
    cells: dict[tuple[str, str], list[Scenario]] = {(kind, each): [] for kind in KINDS for each in frameworks}
    for scenario in SCENARIOS.values():
        kind = next((kind for kind, causes in KINDS.items() if scenario.cause in causes), None)
        why = why_left_out(scenario) or ("another kind of fault" if kind is None else None)
        if scenario.framework in frameworks and why is None and kind is not None:
            cells[kind, scenario.framework].append(scenario)
        else:
            left_out["another framework" if scenario.framework not in frameworks else str(why)] += 1
    for cell in cells.values():
        luck.shuffle(cell)
    turns = {kind: itertools.cycle(luck.sample(frameworks, len(frameworks))) for kind in KINDS}
    found: list[Path] = []
    for kind in itertools.cycle(KINDS):
        if len(found) == cases or not any(cells.values()):
            break
        for framework in itertools.islice(turns[kind], len(frameworks)):
            if made := _made(cells[kind, framework], programs, kind, left_out):
                found.append(made)
                break
    print(f"seed {seed}: {len(found)} scenarios drawn of {sum(map(len, cells.values())) + len(found)} that fit")
    print("left out: " + ", ".join(f"{count} {why}" for why, count in left_out.most_common()), flush=True)
    return found


def _made(cell: list[Scenario], programs: Path, kind: str, left_out: Counter[str]) -> Path | None:
    while cell:
        scenario = cell.pop()
        folder = programs / scenario.name
        folder.mkdir(parents=True)
        try:
            write_program(scenario, folder)
        except LeftOut as error:
            left_out[str(error)] += 1
            continue
        print(f"{kind}: {scenario.name}, {(folder / 'run.txt').read_text().strip()}")
        return folder
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS, help="(default: those that are installed)")
    parser.add_argument("--only", nargs="*", help="of those that are drawn")
    parser.add_argument("--list", action="store_true", help="write and name the programs, and run nothing")
    options(parser)
    asked = parser.parse_args()
    usual = [next(s for s in SCENARIOS.values() if s.framework == each and not s.needs) for each in FRAMEWORKS]
    installed = [each.framework for each in usual if what_is_missing(each) is None or each.hosts]
    programs = Path(tempfile.mkdtemp(prefix="keepstep-shrink-lab-"))
    sources = drawn(asked.cases, asked.seed, asked.framework or installed, programs)
    sources = [each for each in sources if not asked.only or each.name in asked.only]
    print(f"programs in {programs}" if asked.list else series(sources, asked))


if __name__ == "__main__":
    main()
