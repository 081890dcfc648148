# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per verb, imported only when the verb is called."""

from __future__ import annotations

import gc
import io
import os
import sys

MANY_OBJECTS = 100_000
"""Objects made before Python collects garbage: most live to the end, and collecting took an eighth of the start."""


def main() -> None:
    """The entry point of ``keepstep``."""
    gc.set_threshold(MANY_OBJECTS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter the terminal cannot show must not break us
    try:
        from keepstep.cli.parser import run

        status = run(sys.argv[1:])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    except Exception as error:
        from keepstep.cli.own_crash import broke

        status = broke(error, sys.argv[1:])
    sys.exit(status)
