# SPDX-License-Identifier: Apache-2.0
"""What MkDocs cannot do by itself: pages from the repository's root, links that work on both sides, rules by family."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-promises.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "measurements.md",
}
"""Pages that live outside docs/, and what the site calls them."""
FILES = ("LICENSE", "examples/guard_torch.py", "examples/guard_tensorflow.py", "examples/guard_jax.py")
"""Files that pages link to; the site has a copy of each."""
SITE_PATHS = {**PAGES, **{file: f"files/{file}" for file in FILES}}
SEVERAL = "benchmarks/RESULTS.md"
"""It has several titles, one per benchmark; a page has one."""
ROLE = re.compile(r":(?:meth|class|func|mod|attr|data):(?=<code>)")
CELL = re.compile(r"<td\b.*?</td>", re.S)
JOINT = re.compile(r"(?<=\w)([_./])(?=\w)(?![^<]*>)")
"""Where a name in the text of a cell may break: `sync.`, `deadlock_`; not inside a tag."""
LINK = re.compile(r"(\]\()(?!https?://|mailto:|#)([^)#\s]+)")


def on_config(config: Any) -> Any:
    """The rules, by family, into the navigation."""
    families: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for path in sorted((DOCS / "rules").glob("*.md")):
        text = path.read_text("utf-8")
        cause = re.search(r"^\| cause \| `(\w+)\.", text, re.M)
        title = re.search(r"^# (.+)$", text, re.M)
        if cause and title:
            families[cause[1]].append({title[1]: f"rules/{path.name}"})
    by_family = [
        {family: sorted(pages, key=lambda page: next(iter(page)))} for family, pages in sorted(families.items())
    ]
    for section in config.nav:
        if "Rules" in section:
            section["Rules"] = ["rules/index.md", *by_family]
    return config


def on_files(files: Any, *, config: Any) -> Any:
    from mkdocs.structure.files import File

    for source, name in SITE_PATHS.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Links are written for the repository; what they lead to has another path in the site."""
    here = page.file.src_uri
    source = next((repo for repo, name in PAGES.items() if name == here), f"docs/{here}")
    if source == SEVERAL:
        markdown = "# Measurements\n\n" + re.sub(r"^#", "##", markdown, flags=re.M)
    return LINK.sub(lambda match: match[1] + _in_site(match[2], source, here), markdown)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Docstrings have roles of Sphinx, which Markdown does not know. Long names in tables may break at joints."""
    return CELL.sub(lambda cell: JOINT.sub(r"\1<wbr>", cell[0]), ROLE.sub("", html))


def _in_site(link: str, source: str, here: str) -> str:
    target = os.path.normpath(os.path.join(os.path.dirname(source), link))
    if target in SITE_PATHS:
        target = SITE_PATHS[target]
    elif target.startswith("docs" + os.sep):
        target = os.path.relpath(target, "docs")
    else:
        return link  # MkDocs reports it
    return os.path.relpath(target, os.path.dirname(here) or ".")
