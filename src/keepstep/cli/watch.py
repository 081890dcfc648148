# SPDX-License-Identifier: Apache-2.0
"""``keepstep watch``: a run as a page, from a server on loopback or as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from keepstep.analyze.question import run_place
from keepstep.base.visible import visible
from keepstep.cli.print_report import write_page
from keepstep.errors import Unavailable
from keepstep.store import fallback_folder, run_folders

MISSING = "the page needs starlette and uvicorn, which are not installed"
INSTALL = "pip install 'keepstep[web]'; without them: `keepstep top`, or `keepstep watch --html FILE`"


def watch_verb(asked: argparse.Namespace) -> int:
    """Serve the page until the user ends it, or write it."""
    if asked.html:
        from keepstep.watch.look import RunLook
        from keepstep.watch.page.one_file import render_page

        page = render_page(RunLook(run_place(asked.run or "last")))
        write_page(asked.html, page)
        return 0
    try:
        from keepstep.watch.page.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise Unavailable(MISSING, hint=INSTALL) from None
    root = Path(asked.run_dir) if asked.run_dir else run_folders.DEFAULT
    only = run_place(asked.run).absolute() if asked.run else None
    if only is None and not asked.run_dir and not fallback_folder.all_runs(root):
        only = run_folders.last_of_guards()
    serve(root, only, asked.port, lambda line: print(visible(line), flush=True))
    return 0
