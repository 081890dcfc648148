# SPDX-License-Identifier: Apache-2.0
"""COD211: TF_CONFIG is set when the strategy exists already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from keepstep.rules.api import Cause, CodeCall, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._order import calls_of, in_wrong_order
from keepstep.rules.code.tensorflow._tensorflow import MULTI, Distributed, conditions, config_set_in, distributed


def _is_removed(tf: Distributed, place: Evidence[Any]) -> bool:
    """Whether the program also takes TF_CONFIG away: then it sets it for the processes that it starts."""
    return any(
        each.fact.name in ("os.environ.pop", "os.unsetenv") and "TF_CONFIG" in each.fact.text
        for each in tf.known.in_file(place)
    )


def _is_main(place: Evidence[Any]) -> bool:
    """Whether it calls the function that is the whole program: then the line in there says more."""
    return isinstance(place.fact, CodeCall) and any("__name__" in block.text for block in place.fact.within)


def _imported_first(tf: Distributed, made: Iterable[Call]) -> Iterator[tuple[Evidence[Any], Call]]:
    """Where a function sets TF_CONFIG whose callers all import a strategy that exists once its file is imported."""
    early = {each.origin.source: each for each in made if _is_at_import(each) and not conditions(each.fact)}
    if not early:
        return
    places = [each for function in tf.known.functions for each in config_set_in(tf, function)]
    if any(_is_at_import(each) for each in places):
        return
    for place in places:
        calls = tf.known.callers(place.fact.function)
        if not calls or any(_is_at_import(each) for each in calls):
            continue
        before = [{*tf.known.imported_before(each.origin.source, None)} for each in calls]
        for path in sorted(set.intersection(*before).intersection(early)):
            yield place, early[path]


def _is_at_import(place: Evidence[Any]) -> bool:
    """Whether it runs when its file is imported."""
    is_main = any("__name__" in block.text for block in place.fact.within)
    return place.fact.function.endswith(".<module>") and not is_main


@rule(id="COD211", cause=Cause.CONFIG_TRAINS_ALONE, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def tf_config_too_late(seen: EvidenceSet) -> Findings:
    """TF_CONFIG is set after `MultiWorkerMirroredStrategy` was created.

    ## What it looks like
    ```python
    import json
    import os
    import tensorflow as tf


    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    os.environ["TF_CONFIG"] = json.dumps(make_config())
    ```

    ## Why it happens
    The strategy reads TF_CONFIG when it is created, and then never again. Without it, every worker forms a cluster
    of its own and trains alone.

    ## How we know
    In one function, or through the functions that it calls, the strategy comes first and TF_CONFIG second. Or the
    strategy is created as a file is imported, and every caller of the function that sets TF_CONFIG imports that file.

    ## What to do
    ```python
    import json
    import os
    import tensorflow as tf


    os.environ["TF_CONFIG"] = json.dumps(make_config())
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ```

    ## When this is wrong
    When the variable was set from outside, and this one is meant for another process.
    """
    tf = distributed(seen)
    made = [each for each in tf.known.calls(*MULTI) if not each.fact.arguments]
    told = set()
    for first, then in in_wrong_order(tf, made, calls_of(tf, MULTI), lambda name: config_set_in(tf, name)):
        place = then.there if _is_main(then.here) else then.here
        if place.origin in told or _is_removed(tf, place):
            continue
        told.add(place.origin)
        yield Found(
            title="TF_CONFIG is set after the strategy was created",
            because=f"the strategy reads it when it is created (line {first.here.origin.line}); set afterwards, it"
            " has no effect, and each worker trains alone",
            evidence=(place, first.here),
            fixes=(Fix(do="set TF_CONFIG before the strategy is created"),),
        )
    for place, strategy in _imported_first(tf, made):
        if place.origin not in told and not _is_removed(tf, place):
            told.add(place.origin)
            yield Found(
                title="TF_CONFIG is set after the strategy was created",
                because=f"the strategy is created as its file is imported (line {strategy.origin.line}), before any"
                " function runs; it reads TF_CONFIG then and never again, and each worker trains alone",
                evidence=(place, strategy),
                fixes=(Fix(do="create the strategy in a function that is called after TF_CONFIG is set"),),
            )
