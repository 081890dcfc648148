# SPDX-License-Identifier: Apache-2.0
"""The reports that Python code gets: a :class:`Report` that shows itself where it is printed or displayed."""

from __future__ import annotations

import html
from dataclasses import fields
from typing import Any

from keepstep.base.redact import redacted
from keepstep.base.visible import visible
from keepstep.model.codec import report_to_dict
from keepstep.model.report import Report
from keepstep.render.templating import Markup, fill


class ShownReport(Report):
    """A report on a run, redacted. ``print(report)`` prints it; a notebook shows it as a page."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The document that `--json` prints, schema ``keepstep.report/1``."""
        return report_to_dict(self)

    def to_html(self) -> str:
        """The page that `--html` writes, without the lines around the evidence."""
        from keepstep.render.html import render_html

        return render_html(self)

    def __str__(self) -> str:
        from keepstep.render.terminal import render_terminal

        return render_terminal(self).rstrip("\n")

    def __repr__(self) -> str:
        root = f", {self.root.cause.value}: {self.root.title}" if self.root else ""
        return visible(f"<keepstep report: {self.verdict.value}{root}>")

    def _repr_html_(self) -> str:
        """For notebooks: the page in a frame of its own, which keeps its styles. Plain text without frames."""
        return str(fill("notebook.html", page=Markup(html.escape(self.to_html())), text=str(self)))


class ShownPreflight(ShownReport):
    """A report on what would go wrong in a run to come."""

    __slots__ = ()

    def to_html(self) -> str:
        """The page that `--html` writes."""
        from keepstep.render.html import render_preflight

        return render_preflight(self)


def shown(report: Report) -> ShownReport:
    """A report on a run, as Python code gets it."""
    return ShownReport(**_parts(report))


def shown_preflight(report: Report) -> ShownPreflight:
    """A report before a run, as Python code gets it."""
    return ShownPreflight(**_parts(report))


def _parts(report: Report) -> dict[str, Any]:
    clean = redacted(report)
    return {each.name: getattr(clean, each.name) for each in fields(clean)}
