# SPDX-License-Identifier: Apache-2.0
"""Facts: what was observed, typed, without judgement. One file per subject.

``Fact.rank`` is the rank that the observed text itself names (``[Rank 3] ...``); which rank *printed* the text is part
of the evidence around the fact.
"""

from __future__ import annotations

from keepstep.model.facts.accelerators import *  # noqa: F403
from keepstep.model.facts.arrivals import *  # noqa: F403
from keepstep.model.facts.base import *  # noqa: F403
from keepstep.model.facts.cluster import *  # noqa: F403
from keepstep.model.facts.code import *  # noqa: F403
from keepstep.model.facts.collectives import *  # noqa: F403
from keepstep.model.facts.compared import *  # noqa: F403
from keepstep.model.facts.config import *  # noqa: F403
from keepstep.model.facts.config_files import *  # noqa: F403
from keepstep.model.facts.data import *  # noqa: F403
from keepstep.model.facts.environment import *  # noqa: F403
from keepstep.model.facts.guard import *  # noqa: F403
from keepstep.model.facts.host import *  # noqa: F403
from keepstep.model.facts.links import *  # noqa: F403
from keepstep.model.facts.network import *  # noqa: F403
from keepstep.model.facts.nodes import *  # noqa: F403
from keepstep.model.facts.paths import *  # noqa: F403
from keepstep.model.facts.pipeline import *  # noqa: F403
from keepstep.model.facts.plan import *  # noqa: F403
from keepstep.model.facts.platform import *  # noqa: F403
from keepstep.model.facts.process import *  # noqa: F403
from keepstep.model.facts.rank_places import *  # noqa: F403
from keepstep.model.facts.resource import *  # noqa: F403
from keepstep.model.facts.restarts import *  # noqa: F403
from keepstep.model.facts.shards import *  # noqa: F403
from keepstep.model.facts.software import *  # noqa: F403
from keepstep.model.facts.sync import *  # noqa: F403
from keepstep.model.facts.training import *  # noqa: F403
