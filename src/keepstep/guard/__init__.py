# SPDX-License-Identifier: Apache-2.0
"""Inside the training process: which step and phase it is in, and whether all ranks are about to do the same.

``guard = keepstep.guard.attach()`` or, without a change of code, ``KEEPSTEP=on python train.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.guard.api import Guard


def attach(**settings: Any) -> Guard:
    """The guard of this process, attached to the imported frameworks; ``settings`` as for :meth:`Guard.batches`."""
    from keepstep.guard import api  # loaded when asked for: the start-up hook imports this package in every Python

    return api.attach(**settings)
