"""/dev/shm holds 1 MB only, as in a container without --shm-size."""

from lab.launch import Run

MOUNT = 'mount -t tmpfs -o size=1m shm /dev/shm && exec "$@"'


def prepare(run: Run) -> None:
    run.prefix = ["unshare", "--mount", "bash", "-c", MOUNT, "bash"]
