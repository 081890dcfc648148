# SPDX-License-Identifier: Apache-2.0
"""Words with which programs say that they have finished, and words that only look like it."""

from __future__ import annotations

import pytest

from keepstep.parse.scan.closing_words import NEAR_THE_END, closing_line

CLOSING = """
process 1: done
[rank 0] Finished.
All done!
Job 17 completed
exiting program after 150 iterations
Fitness limit reached, training completed.
main() has finished
Training done in 31.2 s
worker exited with code 0
Total time: 0:12:31
Final test accuracy: 0.93
all 8 workers have finished
Saved final model to out/model.pt
Script finished successfully
process 3: done on gpu-node-3
""".strip().splitlines()

GOING_ON = """
step 100 loss 0.3
successfully saved checkpoint at iteration 150
Epoch 3/10 completed
checkpoint done
waiting until the job is done
not finished yet
500/500 [==============================] - 3s 5ms/step
Downloading: 100%
Evaluation done, resuming training
training will be complete after 10 epochs
shard 3 of 8 completed
exited with code 1
exiting on error
rank 0: exiting on SIGTERM
[rank 1] finished on step 3
done on epoch-4
finished on demand
""".strip().splitlines()


@pytest.mark.parametrize("line", CLOSING)
def test_a_program_says_that_it_has_finished(line: str) -> None:
    assert closing_line(["step 1", line]) == line


def test_no_other_line_passes_for_that() -> None:
    assert [line for line in GOING_ON if closing_line([line])] == []


def test_only_the_last_lines_count() -> None:
    assert closing_line(["all done", *["more"] * NEAR_THE_END]) is None
    assert closing_line(["all done", *["more"] * (NEAR_THE_END - 1)]) == "all done"
