# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1's TPUEstimator, TPU embeddings, and what a client and its TPU's host exchange."""

from __future__ import annotations

from keepstep.model.facts.platform import MemberRestarted, TpuInitFailed
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # Where the TPU is
    signature(
        r"KeyError: [\"'](?P<what>COLAB_TPU_ADDR|TPU_NAME|TPU_ADDRESS|KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS)[\"']",
        lambda match: TpuInitFailed(what=f"no TPU is attached to this machine: {match['what']} is not set"),
    ),
    signature(
        r"Error: [^\n]{0,80}Unable to find the relevant tensor remote_handle", lambda m: MemberRestarted(sure=False)
    ),
)
