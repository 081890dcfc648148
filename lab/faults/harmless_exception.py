"""Not a fault: an exception is caught, its traceback logged, and training goes on."""

import logging


def at(step: int, rank: int) -> None:
    try:
        open("/data/metrics/upload.json").read()
    except OSError:
        logging.getLogger("train").exception("could not upload metrics, will retry at the next evaluation")
