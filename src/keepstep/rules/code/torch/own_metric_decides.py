# SPDX-License-Identifier: Apache-2.0
"""COD130: Lightning decides by a value that each rank computed from its own part of the data."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, Value, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program

_STEPS = ("validation_step", "validation_epoch_end", "on_validation_epoch_end")
_DECIDERS = ("ModelCheckpoint", "EarlyStopping")
_SEVERAL = ("ddp", "fsdp", "deepspeed")
_SYNCED = ("metric", "compute", "gather", "reduce", "sync", "mean_over")


def _runs_several(trainer: Call) -> str:
    """What says that a Trainer runs several processes; empty: nothing."""
    for argument in trainer.fact.arguments:
        name, literal = argument.name, argument.value.literal or ""
        plain = literal.strip("'\"")
        if name in ("strategy", "accelerator") and any(word in plain for word in _SEVERAL):
            return f"{name}={literal}"
        if name in ("devices", "gpus", "num_nodes") and plain.isdecimal() and int(plain) > 1:
            return f"{name}={literal}"
    return ""


def _monitors(known: ProjectFacts, place: Call, key: str) -> Call | None:
    """What decides by the value of that name."""
    for each in known.methods_among(place, *_DECIDERS):
        monitored = each.fact.argument("monitor", 0 if each.fact.method == "EarlyStopping" else None)
        if each.fact.name.startswith("lightning.") and monitored is not None and monitored.literal == key:
            return each
    return None


def _is_own(known: ProjectFacts, logged: Call, value: Value) -> bool:
    """Whether it is a plain value of this rank: metrics of torchmetrics meet all ranks by themselves."""
    if any(word in f"{value.text} {value.made}".lower() for word in _SYNCED):
        return False
    if value.target and value.text.endswith(")"):  # of a method that computes it
        inside = known.inside(value.target)
        return bool(inside) and not any(word in each.fact.text.lower() for each in inside for word in _SYNCED)
    if value.text.startswith("self."):
        return False
    steps = [each for each in known.inside(logged.fact.function) if each.fact.assigned == value.text.partition(".")[0]]
    return bool(steps) and not any(
        word in f"{each.fact.text} {each.fact.name}".lower() for each in steps for word in _SYNCED
    )


def _logged(known: ProjectFacts) -> Iterator[tuple[Call, Value, str]]:
    """Where validation logs a plain value of this rank under a constant name."""
    for each in known.methods("log"):
        function = known.functions.get(each.fact.function)
        if function is None or each.fact.on is None or each.fact.on.text != "self":
            continue
        if each.fact.function.rpartition(".")[2] not in _STEPS:
            continue
        if not any(base.startswith("lightning.") and base.endswith("Module") for base in function.fact.bases):
            continue
        key, value = each.fact.argument("name", 0), each.fact.argument("value", 1)
        sync = each.fact.argument("sync_dist")
        names = {argument.name for argument in each.fact.arguments}
        if key is None or key.literal is None or value is None or "**" in names or "rank_zero_only" in names:
            continue
        if (sync is None or sync.literal == "False") and _is_own(known, each, value):
            yield each, value, key.literal


@rule(
    id="COD130",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def own_metric_decides(seen: EvidenceSet) -> Findings:
    """A Lightning callback decides by a value that is not averaged over the ranks.

    ## What it looks like
    ```python
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.nn.functional import mse_loss

    class Net(L.LightningModule):
        def validation_step(self, batch, index):
            loss = mse_loss(self(batch[0]), batch[1])
            self.log("val_loss", loss)

    def main(data):
        keep = ModelCheckpoint(monitor="val_loss")
        L.Trainer(devices=4, strategy="ddp", callbacks=[keep]).fit(Net(), data)
    ```

    ## Why it happens
    Without `sync_dist=True` the logged value is the mean over this rank's part of the validation data. The best
    checkpoint, the early stop or the learning rate is then chosen by a part of the data, and ranks may choose
    differently.

    ## How we know
    The Trainer runs several processes. Validation logs a plain value under the name that a callback monitors,
    without `sync_dist`. Metrics of torchmetrics are left out: they meet by themselves.

    ## What to do
    ```python
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.nn.functional import mse_loss

    class Net(L.LightningModule):
        def validation_step(self, batch, index):
            loss = mse_loss(self(batch[0]), batch[1])
            self.log("val_loss", loss, sync_dist=True)

    def main(data):
        keep = ModelCheckpoint(monitor="val_loss")
        L.Trainer(devices=4, strategy="ddp", callbacks=[keep]).fit(Net(), data)
    ```

    ## When this is wrong
    When every rank validates on all of the data.
    """
    known = program(seen)
    for each, value, key in _logged(known):
        decider = _monitors(known, each, key)
        trainers = [(call, said) for call in known.among(each, "lightning.Trainer") if (said := _runs_several(call))]
        if decider is None or not trainers:
            continue
        trainer, said = trainers[0]
        yield Found(
            title=f"{decider.fact.method} decides by a value of one rank's data",
            because=f"it monitors {key} (line {decider.origin.line}), `{value.text}` is logged without sync_dist, and"
            f" the Trainer has {said} (line {trainer.origin.line}): each rank sees the mean of its own part",
            evidence=(each, decider, trainer),
            fixes=(
                Fix(
                    do="let Lightning average it over the ranks", code=f"self.log({key}, {value.text}, sync_dist=True)"
                ),
            ),
        )
