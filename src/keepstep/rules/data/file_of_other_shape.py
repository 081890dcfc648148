# SPDX-License-Identifier: Apache-2.0
"""DAT305: a data file has other fields or shapes."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, ShardsSeen, listing, rule
from keepstep.rules.asking.data_files import OddSchema, base_name, odd_schemas


@rule(id="DAT305", cause=Cause.DATA_SHAPE_MISMATCH, needs=(ShardsSeen,))
def file_of_other_shape(seen: EvidenceSet) -> Findings:
    """A data file lacks fields, has extra ones, or has records of another shape than most files beside it.

    ## What it looks like
    `Feature: label is required but could not be found`, `KeyError`, `Cannot batch tensors with different shapes`.

    ## Why it happens
    The file comes from another version of the dataset, or a file of another dataset lies in the folder.

    ## How we know
    `keepstep check data` compared the schemas of all files of a folder. Most of them agree.

    ## What to do
    Write the file again like the others, or move it out of the folder.

    ## When this is wrong
    The fields are optional, and the loader has defaults for them.
    """
    for odd in odd_schemas(seen):
        if odd.missing or odd.added or odd.shapes:
            yield Found(
                title=f"{base_name(odd.example)} {_how(odd)}",
                because=f"{odd.files:,} of {odd.total:,} {odd.format} files in {odd.folder} differ from the others",
                evidence=(odd.evidence,),
                fixes=(Fix(do="write the file again like the others, or move it out of the folder"),),
            )


def _how(odd: OddSchema) -> str:
    if odd.missing:
        return f"lacks {listing(odd.missing[:3])}, which most files beside it have"
    if odd.added:
        return f"has {listing(odd.added[:3])}, which most files beside it do not have"
    name, wrong, usual = odd.shapes[0]
    return f"has {name} of shape {wrong}; most files beside it have {usual}"
