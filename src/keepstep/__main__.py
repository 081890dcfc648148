# SPDX-License-Identifier: Apache-2.0
"""``python -m keepstep``, without the current folder on the module path: it may be a stranger's."""

import contextlib
import os
import sys

with contextlib.suppress(OSError):  # the current folder may be gone
    if sys.path[:1] == [os.getcwd()] and not sys.flags.isolated:
        del sys.path[0]

from keepstep.cli import main

main()
