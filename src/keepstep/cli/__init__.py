# SPDX-License-Identifier: Apache-2.0
"""The command line: one file a verb, each imported only when it is called."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The entry point of ``keepstep``."""
    from keepstep.cli.parser import run

    try:
        status = run(sys.argv[1:])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    sys.exit(status)
