# SPDX-License-Identifier: Apache-2.0
"""A run as one file that opens without a server."""

from __future__ import annotations

from keepstep.watch.look import RunLook
from keepstep.watch.page.documents import moment_document, past_document, view_document
from keepstep.watch.page.template import one_file

MOST_MOMENTS = 16
"""Ranks whose log and stacks are in the file: those that matter."""


def render_page(run: RunLook) -> str:
    """The page. Ranks that matter come with what their logs and stacks say about the time of the first problem."""
    view = run.see()
    since = view.problems[0].since if view.problems else None
    at = view.at if since is None else min(view.at, since + 1.0)
    document = {
        "view": view_document(view),
        "past": past_document(run.past(), view),
        "moments": {str(each.rank): moment_document(run, each.rank, at) for each in view.ranks[:MOST_MOMENTS]},
    }
    return one_file(document, view.problems[0].title if view.problems else f"{view.state}: {view.name}")
