# SPDX-License-Identifier: Apache-2.0
"""The page's markup: with its style and script beside it, for the server, or within it, for one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from keepstep import __version__

POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src {connect}; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


@cache
def asset(name: str) -> str:
    return (resources.files("keepstep.watch.page") / "assets" / name).read_text("utf-8")


def served() -> str:
    """The page as the server gives it: its content policy is in a header."""
    return Template(asset("page.html")).substitute(
        policy="",
        title="keepstep watch",
        style='<link rel="stylesheet" href="/page.css">',
        script='<script src="/page.js"></script>',
        data="",
        footer=f"keepstep {__version__}, on this machine only. It reads the run folder and changes nothing.",
    )


def one_file(document: dict[str, Any], title: str) -> str:
    """The page with everything in it. Its policy allows this script and style, and nothing from anywhere."""
    style, script = asset("page.css"), asset("page.js")
    # within a script element only "<" could end it
    text = json.dumps(document, allow_nan=False).replace("<", "\\u003c").replace("\x7f", "\\u007f")
    return Template(asset("page.html")).substitute(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{one_file_policy()}">\n',
        title=html.escape(title),
        style=f"<style>{style}</style>",
        script=f"<script>{script}</script>",
        data=f'<script type="application/json" id="data">{text}</script>\n',
        footer=f"Written by keepstep {__version__}. Secrets that were recognised are shown as [redacted]; "
        "read it before you pass it on.",
    )


def one_file_policy() -> str:
    """The script and the style that are in the file, and nothing from anywhere."""
    return POLICY.format(script=_hash(asset("page.js")), style=_hash(asset("page.css")), connect="'none'")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
