"""The torch checkpoint to resume from is of a wider model with another layer."""

from lab.launch import Run


def prepare(run: Run) -> None:
    import torch

    from lab.jobs.torch_ddp import Classifier

    state = Classifier(width=96).state_dict()
    state["extra.weight"] = state.pop("auxiliary.weight")
    path = run.work / "last.pt"
    torch.save({"model": state, "step": 40}, path)
    for args in run.args:
        args += ["--resume", str(path)]
