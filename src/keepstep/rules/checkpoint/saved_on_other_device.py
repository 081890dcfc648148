# SPDX-License-Identifier: Apache-2.0
"""CKP005: a checkpoint's tensors belong to a device that is not here."""

from __future__ import annotations

from keepstep.model.facts import CheckpointOfOtherDevice
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.asking.fallout import lasting


@rule(
    id="CKP005",
    cause=Cause.CHECKPOINT_MISMATCH_KEYS_SHAPES,
    needs=(CheckpointOfOtherDevice,),
    explains=(Cause.USER_CODE_EXCEPTION, Cause.NETWORK_CONNECTION_RESET_PEER_DIED),
)
def saved_on_other_device(seen: EvidenceSet) -> Findings:
    """A checkpoint holds tensors of a device that this host does not have.

    ## What it looks like
    `Attempting to deserialize object on CUDA device 4 but torch.cuda.device_count() is 1`.

    ## Why it happens
    `torch.save` keeps each tensor's device, for instance the `cuda:4` of the rank that saved, and `torch.load` puts it
    there again. The program resumes on a host with fewer devices, or with some of them hidden.

    ## How we know
    PyTorch names the device's number and how many devices it sees.

    ## What to do
    Load to the CPU or to the rank's own device.

    ## When this is wrong
    The device should be here, and CUDA_VISIBLE_DEVICES or a fault of the driver hides it.
    """
    found = lasting(seen, CheckpointOfOtherDevice)
    if found:
        fact = found[0].fact
        yield Found(
            title=f"a checkpoint was saved on {fact.kind} device {fact.number}, and this process sees {fact.here}",
            because="torch.load puts each tensor on the device it was saved on, counted from 0",
            evidence=found,
            fixes=(
                Fix(do="load to the CPU, then move the model", code='torch.load(path, map_location="cpu")'),
                Fix(do="count the devices that are visible here", command="nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES"),
            ),
        )
