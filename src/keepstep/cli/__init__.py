# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per verb, imported only when the verb is called."""

from __future__ import annotations

import gc
import sys

MANY_OBJECTS = 100_000
"""Objects made before Python collects garbage: most live to the end, and collecting took an eighth of the start."""


def main() -> None:
    """The entry point of ``keepstep``."""
    gc.set_threshold(MANY_OBJECTS)
    from keepstep.cli.standard_streams import flush, harmless

    sys.stdout, out = harmless(sys.stdout)
    sys.stderr, _ = harmless(sys.stderr)
    status = _status(sys.argv[1:])
    flush()
    if out is not None and out.error is not None:
        print(f"keepstep: standard output cannot be written: {out.error.strerror}", file=sys.stderr, flush=True)
        if sys.argv[1:2] != ["run"]:  # which passes the job's own status on
            status = 3
    sys.exit(status)


def _status(arguments: list[str]) -> int:
    try:
        from keepstep.cli.parser import run

        return run(arguments)
    except SystemExit as left:  # argparse: help was asked for, or the words are wrong
        return left.code if isinstance(left.code, int) else 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        from keepstep.cli.own_crash import broke

        return broke(error, arguments)
