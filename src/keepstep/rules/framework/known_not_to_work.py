# SPDX-License-Identifier: Apache-2.0
"""FRW101: the installed packages are known not to work together."""

from __future__ import annotations

from keepstep.base.whole_numbers import whole
from keepstep.model.facts import ScriptCalls, SoftwareSeen
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule


def _number(version: str) -> tuple[int, ...]:
    return tuple(number for part in version.split("+")[0].split(".") if (number := whole(part)) is not None)


def _at_least(version: str, *wanted: int) -> bool:
    return _number(version) >= wanted


@rule(id="FRW101", cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION, needs=(SoftwareSeen,))
def known_not_to_work(seen: EvidenceSet) -> Findings:
    """The installed packages are known not to work together.

    ## What it looks like
    Keras 3's `fit` under MultiWorkerMirroredStrategy or ParameterServerStrategy fails at its first step; NumPy
    2 with a TensorFlow below 2.18; `TF_USE_LEGACY_KERAS=1` without tf_keras; a jaxlib newer than its jax.

    ## Why it happens
    Packages move at different speeds.

    ## How we know
    The installed versions, the environment variables and the calls in the script are compared with a table of
    combinations that fail.

    ## What to do
    Each finding says which version or setting works.

    ## When this is wrong
    The script does not use the part that fails.
    """
    for each in seen.all(SoftwareSeen)[:1]:
        packages, variables = dict(each.fact.packages), dict(each.fact.variables)
        tensorflow = packages.get("tensorflow") or packages.get("tensorflow-cpu")
        legacy = variables.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
        for script in seen.all(ScriptCalls)[:1]:
            several = [name for name in script.fact.strategies if "MultiWorker" in name or "ParameterServer" in name]
            if tensorflow and _at_least(packages.get("keras", "0"), 3) and not legacy and several and script.fact.fits:
                yield Found(
                    title=f"{script.fact.script} calls Keras 3's fit under {several[0]}, which fails",
                    because=f"Keras {packages['keras']} does not support it; tf_keras and custom training loops do",
                    evidence=(script, each),
                    fixes=(
                        Fix(
                            do="use tf_keras, which supports it",
                            command="pip install tf_keras && export TF_USE_LEGACY_KERAS=1",
                        ),
                    ),
                )
        if tensorflow and legacy and "tf-keras" not in packages:
            yield Found(
                title="TF_USE_LEGACY_KERAS is set, but tf_keras is not installed",
                because="TensorFlow will try to import tf_keras and fail",
                evidence=(each,),
                fixes=(
                    Fix(do="install it", command=f"pip install 'tf_keras~={'.'.join(tensorflow.split('.')[:2])}.0'"),
                ),
            )
        if tensorflow and not _at_least(tensorflow, 2, 18) and _at_least(packages.get("numpy", "0"), 2):
            yield Found(
                title=f"NumPy {packages['numpy']} is installed, but TensorFlow {tensorflow} was built for NumPy 1",
                because="the import will fail, or arrays will be misread",
                evidence=(each,),
                fixes=(Fix(do="install a NumPy version that it was built for", command="pip install 'numpy<2'"),),
            )
        jax, jaxlib = packages.get("jax"), packages.get("jaxlib")
        if jax and jaxlib and _number(jaxlib)[:3] > _number(jax)[:3]:
            yield Found(
                title=f"jaxlib {jaxlib} is newer than jax {jax}",
                because="jax needs a jaxlib of the same version or slightly older",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="install matching versions", command=f"pip install 'jax=={jax}' 'jaxlib<={jax}'"),),
            )
