# SPDX-License-Identifier: Apache-2.0
"""Facts: what was observed, typed, without judgement. One file per subject.

``Fact.rank`` is the rank that the observed text itself names (``[Rank 3] ...``); which rank *printed* the text is part
of the evidence around the fact.
"""

from __future__ import annotations

from keepstep.model.facts.base import Fact

__all__ = ["Fact"]
