# SPDX-License-Identifier: Apache-2.0
"""Packages that reject the installed version of another package: pip, transformers, OpenMMLab."""

from __future__ import annotations

from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.parse.scan.signature import signature

_PACKAGE = r"`?(?:[Tt]orch|PyTorch|transformers|accelerate|peft|[Dd]eep[Ss]peed|Transformer[- _]?[Ee]ngine|TE|NCCL|CUDA|huggingface_hub)`?"

SIGNATURES = (
    signature(
        r"(?P<what>[\w.\-]{1,40}[<>=!~]{1,2}[\w.,<>=! ]{1,40} is required for a normal functioning of this module, but found \S+)",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>MMCV\S{0,20} is used but incompatible\. Please install [^\n]{0,60})", UnsupportedCombination),
    signature(
        r"(?P<what>MMEngine\S{0,20} is used but incompatible\. Please install [^\n]{0,60})", UnsupportedCombination
    ),
    signature(
        r"(?:ContextualVersionConflict|VersionConflict): \((?P<what>[^\n]{0,120}Requirement\.parse\([^)\n]{0,60}\))",
        UnsupportedCombination,
    ),
    signature(
        r"Error: (?P<what>Using [^\n]{0,60} requires `?[\w\-\[\]]{1,40}[<>=]{1,2}[\d.]{1,12}`?)", UnsupportedCombination
    ),
    signature(
        r"Error: (?P<what>[\w\- ]{1,40} (?:version (?:must be|needs to be) (?:at least |>= ?)\d|(?:must be|needs to be) (?:at least |>= ?)\d{1,3}\.\d)[\d.]{0,10}[^\n]{0,60})",
        UnsupportedCombination,
    ),
    signature(
        rf"Error: (?P<what>[^\n]{{0,160}}?\brequires?(?: to have)?(?: at least)? {_PACKAGE} ?(?:version )?(?:[<>]=?|==|v?\d)[^\n]{{0,60}})",
        UnsupportedCombination,
    ),
    signature(
        rf"Error: (?P<what>(?:Must have at least |Only )?{_PACKAGE} version (?:must be |>= ?)?v?\d[\d.]{{0,12}}[^\n]{{0,60}}(?:or higher|or later|supports?))",
        UnsupportedCombination,
    ),
    signature(
        r"Error: [^\n]{0,120}(?P<what>we now require users to upgrade torch to at least v[\d.]{1,8})",
        UnsupportedCombination,
    ),
    signature(
        r"Error: (?P<what>Current torch version does not have \w{3,40} ?api \(torch\.__version__: [^\n)]{1,20}\))",
        UnsupportedCombination,
    ),
)
