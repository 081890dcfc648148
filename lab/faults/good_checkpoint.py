"""Not a fault: a sound torch checkpoint to resume from."""

from lab.launch import Run


def prepare(run: Run) -> None:
    import torch

    from lab.jobs.torch_ddp import Classifier

    path = run.work / "last.pt"
    torch.save({"model": Classifier().state_dict(), "step": 40}, path)
    for args in run.args:
        args += ["--resume", str(path)]
