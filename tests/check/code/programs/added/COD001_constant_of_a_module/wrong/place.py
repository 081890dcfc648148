# SPDX-License-Identifier: Apache-2.0
"""Where this process stands."""

import os

PLACE = int(os.environ["RANK"])
LEADS = PLACE == 0
