# SPDX-License-Identifier: Apache-2.0
"""Fill the templates beside this file. Every value is escaped unless it is already markup."""

from __future__ import annotations

import html
from functools import cache
from importlib import resources
from string import Template

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.visible import visible


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Any text as markup that shows it."""
    return Markup(html.escape(visible(text), quote=True))


_NAME = lazy_pattern(r"[._/]\w")
"""In the first word of a sentence: it names a file, a module or a variable."""


def prose(text: str) -> Markup:
    """A sentence, with text in backticks shown as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    shown = [f"<code>{escape(p)}</code>" if n % 2 else escape(p) for n, p in enumerate(parts)]
    first, blank, rest = parts[0].partition(" ")
    if _NAME.search(first):  # its first letter stays as it is
        shown[0] = f'<span class="name">{escape(first)}</span>{escape(blank + rest)}'
    return Markup("".join(shown))


def fill(name: str, /, **values: object) -> Markup:
    """A template with its values; every value that is not :class:`Markup` is escaped."""
    ready = {key: value if isinstance(value, Markup) else escape(str(value)) for key, value in values.items()}
    return Markup(_template(name).substitute(ready))


def join(parts: list[Markup]) -> Markup:
    return Markup("".join(parts))


@cache
def asset(name: str) -> Markup:
    """A style sheet or script, as it stands on disk."""
    return Markup((resources.files("keepstep.render") / "templates" / name).read_text("utf-8"))


@cache
def _template(name: str) -> Template:
    return Template(asset(name))
