"""The .npz checkpoint to resume from lost its second half."""

from lab.launch import Run


def prepare(run: Run) -> None:
    import numpy as np

    path = run.work / "last.npz"
    np.savez(path, w1=np.zeros((16, 32), "f4"), w2=np.zeros((32, 10), "f4"), step=40)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    for args in run.args:
        args += ["--resume", str(path)]
