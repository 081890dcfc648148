"""Every process was told that it is rank 0 of a world of one."""

from lab.launch import Run


def prepare(run: Run) -> None:
    for env, port in zip(run.env, run.ports, strict=False):
        env |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(port)}
