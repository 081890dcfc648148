"""The .npz checkpoint to resume from is of a wider model."""

from lab.launch import Run


def prepare(run: Run) -> None:
    import numpy as np

    path = run.work / "last.npz"
    np.savez(path, w1=np.zeros((16, 48), "f4"), w2=np.zeros((48, 10), "f4"), step=40)
    for args in run.args:
        args += ["--resume", str(path)]
