# SPDX-License-Identifier: Apache-2.0
"""Build the site and hold it to its promises: ``python -m tools.site REPORTS``, with what requirements/docs.txt pins.

No broken link or anchor, nothing that a browser would fetch from elsewhere, and reports that validate by the schema.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tools.report_schema import ROOT, load

SITE = ROOT / "site"
NO_ADVERTISEMENT = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
"""For what its theme thinks of the next MkDocs."""
FETCHED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="?(?:https?:)?//[^"\s>]+
                       | <link\b[^>]*\bhref="?(?:https?:)?//[^"\s>]+
                       | @import\s+["']?(?:url\()?["']?https?://[^"'\s)]+
                       | \burl\(["']?https?://[^"')]+""", re.X)  # fmt: skip


def build() -> int:
    """Strictly: a warning is an error. (With ``--quiet`` MkDocs would not count its warnings.)"""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-d", str(SITE)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **NO_ADVERTISEMENT}, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
    print("\n".join(said), end="\n" if said else "", file=sys.stderr)
    return done.returncode


def fetched_from_elsewhere(site: Path = SITE) -> list[str]:
    """What a page or a style sheet would load over the network."""
    found = []
    for path in sorted((*site.rglob("*.html"), *site.rglob("*.css"))):
        found += [f"{path.relative_to(site)}: {match[0][:120]}" for match in FETCHED.finditer(path.read_text("utf-8"))]
    return found


def not_by_the_schema(reports: Path) -> list[str]:
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(load())
    validator = jsonschema.Draft202012Validator(load())
    paths = sorted(reports.glob("*.json"))
    if not paths:
        return [f"there are no reports in {reports}"]
    return [
        f"{path.name}: {error.json_path}: {error.message[:200]}"
        for path in paths
        for error in validator.iter_errors(json.loads(path.read_text("utf-8")))
    ]


def main() -> int:
    wrong = not_by_the_schema(Path(sys.argv[1]))
    if build():
        return 1
    wrong += fetched_from_elsewhere()
    for each in wrong:
        print(f"docs: {each}", file=sys.stderr)
    if not wrong:
        print(f"the site is in {SITE.name}/: open {SITE.name}/index.html")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
