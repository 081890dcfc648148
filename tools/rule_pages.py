# SPDX-License-Identifier: Apache-2.0
"""Write docs/rules from the rules themselves: an index, and one page a family. ``--check`` only compares."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from pathlib import Path

import keepstep.rules
from keepstep.core.rule import Rule, rules_in

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "rules"
NOTE = "<!-- Made by `make docs` from src/keepstep/rules: change the rule, not this page. -->\n\n"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    families: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules_in(keepstep.rules):
        families[rule.find.__module__.split(".")[2]].append(rule)
    made = {f"{family}.md": family_page(family, rules) for family, rules in sorted(families.items())}
    made["README.md"] = index(families)
    return made


def index(families: dict[str, list[Rule]]) -> str:
    lines = [
        NOTE + "# The rules\n",
        "What `keepstep why` can conclude. `keepstep rules show ID` prints the same on a terminal.\n",
    ]
    for family, rules in sorted(families.items()):
        lines += [f"## [{family}]({family}.md)\n", "| rule | cause | in one sentence |", "|---|---|---|"]
        lines += [f"| [{r.id}]({family}.md#{anchor(r)}) | `{r.cause.value}` | {r.summary} |" for r in rules]
        lines.append("")
    return "\n".join(lines)


def family_page(family: str, rules: list[Rule]) -> str:
    intro = inspect.getdoc(sys.modules[rules[0].find.__module__.rpartition(".")[0]]) or ""
    parts = [NOTE + f"# {family}\n\n{intro}\n"]
    for rule in rules:
        summary, _, rest = inspect.cleandoc(rule.doc).partition("\n")
        parts.append(
            f"## {rule.id} {rule.name}\n\n{summary}\n\n"
            f"Cause `{rule.cause.value}` · {rule.severity.value} · {rule.confidence.value} · since {rule.since}\n\n"
            + rest.strip().replace("## ", "### ")
            + "\n"
        )
    return "\n".join(parts)


def anchor(rule: Rule) -> str:
    return f"{rule.id}-{rule.name}".lower()


def main() -> int:
    made = pages()
    there = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    if "--check" in sys.argv[1:]:
        stale = sorted(name for name in {*made, *there} if made.get(name) != there.get(name))
        if stale:
            print(f"docs/rules is not up to date ({', '.join(stale)}): run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in there.keys() - made.keys():
        (FOLDER / name).unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    print(f"docs/rules: {len(made)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
