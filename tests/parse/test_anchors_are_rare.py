"""The literals that betray a signature must not stand on ordinary lines: each hit costs a look at the line."""

import random
from collections import Counter

from benchmarks.made_logs import ordinary
from keepstep.parse.scan.tables import tables

STEADY = """\
{'loss': 2.3301, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.02}
 12%|█▏        | 120/1000 [01:02<07:31,  1.95it/s]
Epoch 1:  20%|##        | 412/2040 [4:02:51<15:57:10, 35.27s/it, v_num=3, train_loss=1.20]
600/600 [==============================] - 3s 5ms/step - loss: 0.2218 - accuracy: 0.9354 - val_loss: 0.31
 iteration      100/  500000 | consumed samples:  25600 | elapsed time per iteration (ms): 1203.1 | learning rate: 1.5E-05 | global batch size:   256 | lm loss: 9.1E+00 | loss scale: 1.0 | grad norm: 3.2 | number of skipped iterations:   0 | number of nan iterations:   0 |
[2024-05-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]
[2024-05-01 10:00:00,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=98.1, MemAllocated=11.2GB, MaxMemAllocated=30.1GB
INFO:tensorflow:loss = 0.34110, step = 190 (2.084 sec)
INFO:tensorflow:global_step/sec: 12.31
2024-05-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 2000 loss=12.1, ppl=4500.1, wps=9000, ups=1.2, wpb=7500, bsz=32, num_updates=100, lr=1e-06, gnorm=4.2, train_wall=80, gb_free=9.1, wall=100
05/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][ 50/1000]  lr: 1.9e-02  eta: 1:00:00  time: 0.31  data_time: 0.01  memory: 5000  loss: 1.2
[05/01 10:00:00 d2.utils.events]:  eta: 1:00:00  iter: 19  total_loss: 2.1  loss_cls: 0.5  time: 0.31  data_time: 0.01  lr: 0.0002  max_mem: 5000M
Train: 0 [  50/1251 (  4%)]  Loss: 6.95 (6.95)  Time: 0.331s,  772.1/s  (0.4s,  700.1/s)  LR: 1.0e-06  Data: 0.01 (0.04)
1|96|Loss: 0.14120336174964905: 100%|##########| 96/96 [1:49:12<00:00, 68.25s/it]
I0501 10:00:00.000000 140231188862720 logging_writer.py:48] [100] accuracy=0.5, loss=1.2, steps_per_sec=3.1
completed step: 100, seconds: 1.2, TFLOP/s/device: 100.1, Tokens/s/device: 2000.1, total_weights: 65536, loss: 7.1
node-3:4123:5812 [3] NCCL INFO Channel 04/0 : 3[3] -> 4[4] via P2P/IPC/read
node-3:4123:5812 [3] NCCL INFO comm 0x7f4b08001060 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 3d000 commId 0x1 - Init COMPLETE
step 97, acc 0.004, loss 8.611, loss_att 8.760, total 8.611, mem_usage:cuda:2 8.8GB, 0.861 sec/step
Test set: Average loss: 0.0521, Accuracy: 9830/10000 (98%)
Saved summary 120 to /data/run/summaries
""".splitlines()

MOST_HITS = 3
"""A line of a kind that comes once a run may hold an anchor; one that comes every step may not."""


def anchors() -> list[tuple[str, bool]]:
    signatures, blocks, _ = tables()
    every = [*signatures, *(block.begin for block in blocks)]
    return sorted({(anchor, each.folds_case) for each in every for anchor in each.anchors})


def hits(lines: list[str]) -> Counter[str]:
    text = "\n".join(lines)
    folded = text.lower()
    counts = {anchor: (folded if folds else text).count(anchor) for anchor, folds in anchors()}
    return Counter({anchor: count for anchor, count in counts.items() if count})


def test_no_anchor_stands_on_the_lines_that_trainings_print_by_the_million():
    dice = random.Random(1)
    assert hits([ordinary(n, dice) for n in range(2000)]) == Counter()


def test_hardly_any_anchor_stands_on_the_progress_lines_of_known_trainers():
    found = hits(STEADY)
    assert sum(found.values()) <= MOST_HITS, found
