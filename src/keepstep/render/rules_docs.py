# SPDX-License-Identifier: Apache-2.0
"""The pages on rules, written from the rules: ``python -m keepstep.render.rules_docs docs/rules tests/rules/fires``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import keepstep.rules
from keepstep.model.rule import Rule, rules_in
from keepstep.render.rules_text import SEVERITIES, STANDINGS, sections, summary
from keepstep.render.templating import asset

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Logs = Mapping[str, str]
"""Logs in which a rule fires, by name."""
_NOTE = "<!-- Written by `make docs` from the rule itself. Change the rule, not this page. -->\n"

_LOOKS = "What it looks like"


def page_name(rule: Rule) -> str:
    """The file name of a rule's page: the same as that of its source."""
    return f"{rule.name.replace('-', '_')}.md"


def log_samples(fires: Path) -> dict[str, Logs]:
    """By rule: the first logs that make it fire, as ``tests/rules/fires`` has them. Not every rule reads logs."""
    samples: dict[str, Logs] = {}
    for path in sorted(fires.glob("*.toml")):
        for entry in tomllib.loads(path.read_text("utf-8"))["fires"]:
            if "logs" in entry:
                samples.setdefault(entry["rule"], entry["logs"])
    return samples


def _sample(logs: Logs) -> str:
    """The section with a rule's logs; several have their names above them."""
    blocks = [
        (f"`{name}.log`:\n\n" if len(logs) > 1 else "") + f"``` {{ .text .log }}\n{text.strip()}\n```\n"
        for name, text in sorted(logs.items())
    ]
    return "\n## A log that shows it\n\n" + "\n".join(blocks)


def rule_page(rule: Rule, logs: Logs | None = None) -> str:
    """One rule as Markdown, with logs that show it where there are some."""
    facts = [
        ("rule", f"`{rule.id}`"),
        ("cause", f"`{rule.cause.value}`"),
        ("severity", SEVERITIES[rule.severity]),
        ("standing", STANDINGS[rule.standing]),
        ("confidence", rule.confidence.value),
        ("reads", ", ".join(f"`{kind.__name__}`" for kind in rule.needs) or "everything"),
        ("explains", ", ".join(f"`{cause.value}`" for cause in rule.explains)),
        ("since", rule.since),
    ]
    table = "".join(f"| {name} | {value} |\n" for name, value in facts if value)
    parts = [f"\n## {s.heading}\n\n{s.body}\n" if s.heading else f"\n{s.body}\n" for s in sections(rule)]
    if logs:
        after = next((n for n, s in enumerate(sections(rule), 1) if s.heading == _LOOKS), len(parts))
        parts.insert(after, _sample(logs))
    body = "".join(parts)
    return f"{_NOTE}\n# {rule.id}: {rule.name}\n\n{summary(rule)}\n\n| | |\n|---|---|\n{table}{body}"


def index_page(rules: Iterable[Rule]) -> str:
    """All rules by family."""
    families: dict[str, list[Rule]] = {}
    for rule in rules:
        families.setdefault(rule.cause.family, []).append(rule)
    total = sum(len(each) for each in families.values())
    out = [_NOTE, "\n# Rules\n\n", asset("rules_index.md").replace("{total}", str(total))]
    for family in sorted(families):
        out.append(f"\n## {family}\n\n| rule | cause | what it says |\n|---|---|---|\n")
        for rule in sorted(families[family], key=lambda each: (each.cause.value, each.id)):
            out.append(f"| [{rule.id}]({page_name(rule)}) | `{rule.cause.label}` | {_cell(summary(rule))} |\n")
    return "".join(out)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages(rules: Iterable[Rule], samples: Mapping[str, Logs] | None = None) -> dict[str, str]:
    """Every page by its file name."""
    known = tuple(rules)
    made = {"index.md": index_page(known)}
    for rule in known:
        name = page_name(rule)
        if name in made:
            raise ValueError(f"two rules have the name {rule.name}")
        made[name] = rule_page(rule, (samples or {}).get(rule.id))
    return made


def write_pages(folder: Path, samples: Mapping[str, Logs] | None = None) -> list[str]:
    """Write all pages, remove those of rules that no longer exist, and return what changed."""
    made = pages(rules_in(keepstep.rules), samples)
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for gone in sorted(path for path in folder.glob("*.md") if path.name not in made):
        gone.unlink()
        changed.append(gone.name)
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            changed.append(name)
    return changed


if __name__ == "__main__":
    folder, fires = Path(sys.argv[1]), Path(sys.argv[2])
    print(f"{len(write_pages(folder, log_samples(fires)))} pages changed in {folder}")
