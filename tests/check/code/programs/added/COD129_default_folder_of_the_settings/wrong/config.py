# SPDX-License-Identifier: Apache-2.0
import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path


def _stamp():
    return dt.datetime.now().strftime("%Y%m%d-%H%M%S")


@dataclass
class TrainConfig:
    name: str = "base"
    steps: int = 1000
    output_dir: Path = None

    def validate(self):
        if self.output_dir is None:
            self.output_dir = Path("outputs") / f"{_stamp()}_{self.name}"
        return self
