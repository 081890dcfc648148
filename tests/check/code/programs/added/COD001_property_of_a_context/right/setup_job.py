# SPDX-License-Identifier: Apache-2.0
"""What a process knows about its job."""

import os


class Job:
    def __init__(self):
        self.index = int(os.environ["RANK"])
        self.ranks = int(os.environ["WORLD_SIZE"])

    @property
    def lead(self):
        return self.index == 0
