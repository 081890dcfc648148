# SPDX-License-Identifier: Apache-2.0
"""Facts: what was observed, typed, without judgement. One file a subject.

``Fact.rank`` is the rank that the observed text itself speaks of (``[Rank 3] ...``);
who *printed* the text is a matter of the evidence around the fact.
"""

from __future__ import annotations

from keepstep.core.facts.base import Fact

__all__ = ["Fact"]
