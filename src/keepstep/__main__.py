# SPDX-License-Identifier: Apache-2.0
"""``python -m keepstep``."""

from keepstep.cli import main

main()
