# SPDX-License-Identifier: Apache-2.0
"""COD401: a file of settings cannot be read."""

from __future__ import annotations

from keepstep.model.facts import ConfigUnreadable, DeepSpeedConfig
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, count, listing, rule
from keepstep.rules.code.settings._settings import all_settings, at_line


@rule(id="COD401", cause=Cause.USER_CODE_EXCEPTION, needs=(ConfigUnreadable, DeepSpeedConfig))
def settings_unreadable(seen: EvidenceSet) -> Findings:
    """A file of settings is no JSON or YAML, or has a key twice where its reader refuses that.

    ## What it looks like
    ```json
    {
      "train_micro_batch_size_per_gpu": 4,
      "zero_optimization": {"stage": 2}
      "fp16": {"enabled": true}
    }
    ```

    ## Why it happens
    A comma or a bracket was lost when the file was edited, or a block was pasted in a second time.

    ## How we know
    The format's own reader refuses the text. Comments, and a comma before a closing bracket, are forgiven: DeepSpeed
    reads those. DeepSpeed itself refuses a key that stands twice in one block.

    ## What to do
    ```json
    {
      "train_micro_batch_size_per_gpu": 4,
      "zero_optimization": {"stage": 2},
      "fp16": {"enabled": true}
    }
    ```

    ## When this is wrong
    The file is a template that something fills in first. DeepSpeed alone also reads looser JSON (Hjson), in which
    commas may be missing at the end of a line; Transformers and Accelerate do not.
    """
    for each in seen.all(ConfigUnreadable):
        fact = each.fact
        yield Found(
            title=f"these settings of {fact.what} are no {fact.form}: {fact.why}"[:120],
            because=f"a {fact.form} reader stops at line {each.origin.line}",
            evidence=(each,),
            fixes=(Fix(do="mend this line, or the one above it"),),
        )
    for file in all_settings(seen, DeepSpeedConfig):
        twice = file.evidence.fact.twice
        if twice:
            keys = [".".join(each.path) for each in twice]
            yield Found(
                title=f"{count(len(keys), 'key')} twice in DeepSpeed's settings",
                because=f"DeepSpeed refuses a file in which a key is repeated: {listing(keys[:4])}",
                evidence=tuple(at_line(file.evidence, each.line) for each in twice[:4]),
                fixes=(Fix(do="keep one of them"),),
            )
