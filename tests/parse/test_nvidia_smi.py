# SPDX-License-Identifier: Apache-2.0
"""GPUs that nvidia-smi shows to be unwell."""

from __future__ import annotations

import pytest

from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.training import Slowness
from keepstep.parse.tools.cuda import nvidia_smi
from tests.parse.reading import reader

read = reader(nvidia_smi)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (
            "|   1  Tesla V100-SXM2...  On   | 00000000:16:00.0 Off |                   12 |",
            DeviceFault(what="12 uncorrected memory errors", device="00000000:16:00.0"),
        ),
        (
            "|   2  NVIDIA A100-SXM4-80GB          On  |   00000001:17:00.0 Off |                 ERR! |",
            DeviceFault(what="nvidia-smi cannot read it (ERR!)", device="00000001:17:00.0"),
        ),
        (
            "        Pending                           : Yes",
            DeviceFault(what="memory rows wait to be remapped: the GPU must be reset"),
        ),
        ("        Remapping Failure Occurred        : Yes", DeviceFault(what="a memory row could not be remapped")),
        (
            "        Pending Page Blacklist            : Yes",
            DeviceFault(what="memory pages wait to be retired: the GPU must be reset"),
        ),
        ("    GPU Recovery Action                   : Reset", DeviceFault(what="Reset")),
        (
            "            HW Thermal Slowdown           : Active",
            Slowness(what="straggler", detail="nvidia-smi: the hardware holds a GPU back (heat or power)"),
        ),
    ],
)
def test_says(line, fact):
    assert read(line) == [fact]


@pytest.mark.parametrize(
    "line",
    [
        "|   0  Tesla V100-SXM2...  On   | 00000000:15:00.0 Off |                    0 |",
        "|   0  GeForce RTX 2080    Off  | 00000000:15:00.0  On |                  N/A |",
        "|   0  GeForce RTX 2080    Off  | 00000000:15:00.0  On |                  Off |",
        "|    0     62250      C   /usr/bin/python3.6                          4903MiB |",
        "        Pending                           : No",
        "        Pending                           : Enabled",
        "    GPU Recovery Action                   : None",
        "        HW Slowdown                       : Not Active",
        "        SW Power Cap                      : Active",
    ],
)
def test_says_nothing_of_one_that_is_well(line):
    assert read(line) == []
