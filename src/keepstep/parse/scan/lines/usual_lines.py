# SPDX-License-Identifier: Apache-2.0
"""Lines that healthy runs print by the thousand: the first things to look for in a log should not be in them."""

LINES = rb"""
2026-03-01 12:45:07,318 - INFO - root - step: 1200, loss: 2.3456, lr: 3.000e-04, grad_norm: 0.981, throughput: 812.5 samples/s
2026-03-01T08:09:10.123456Z INFO [train.py:214] epoch 17 iter 45600/98765 loss 0.13579 acc 0.8642 time 0.246s data 0.001s
[2026-03-01 23:59:58] INFO: Epoch [3/90] Step [870/5004] Loss: 1.9287 Top1: 54.32 Top5: 78.90 lr: 0.1 eta: 1:23:45
I0301 14:28:36.907158 139876543210 trainer.py:388] Saved summaries of step 64000 to /data/runs/exp42/train/summaries
I 2026-03-01 01:02:03 worker-3 global_step/sec: 12.3456 examples/sec: 1578.2
2026-03-01 10:20:30.405060: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1929] Created device /job:localhost/replica:0/task:0/device:GPU:0
2026-03-01 10:20:31.506070: I tensorflow/core/common_runtime/executor.cc:1197] [/device:CPU:0] Executor start
2026-03-01 10:20:32.607080: I tensorflow/stream_executor/cuda/cuda_dnn.cc:384] Loaded cuDNN version 8900
2026-03-01 10:20:33.708090: W tensorflow/compiler/xla/stream_executor/cuda/cuda_gpu_executor.cc:995] NUMA node read from SysFS had negative value (-1)
I0301 10:20:34.809010 4242 xla/service/service.cc:168] XLA service 0x5566778899aa initialized for platform CUDA
1875/1875 [==============================] - 12s 6ms/step - loss: 0.2954 - accuracy: 0.9142 - val_loss: 0.1372 - val_accuracy: 0.9598
  63/1563 [>.............................] - ETA: 1:07 - loss: 2.1934 - sparse_categorical_accuracy: 0.1987
Epoch 12/100
 37%|###7      | 3721/10000 [12:34<21:10,  4.94it/s, loss=0.482, v_num=0, train_acc=0.912]
Epoch 4:  56%|####5     | 700/1251 [05:43<04:30,  2.04it/s, v_num=3, train_loss_step=1.230, train_loss_epoch=1.450]
{'loss': 1.0321, 'grad_norm': 0.6543, 'learning_rate': 1.9e-05, 'epoch': 0.87, 'num_tokens': 1048576.0, 'mean_token_accuracy': 0.7621}
{"step": 900, "loss": 0.7123, "lr": 0.0003, "tokens_per_sec": 45678.9, "mfu": 0.412, "memory_gb": 61.2, "timestamp": "2026-03-01T00:00:00Z"}
 iteration     2300/  500000 | consumed samples:       588800 | elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 187.6 | learning rate: 1.2E-04 | global batch size:   256 | lm loss: 3.456789E+00 | loss scale: 1.0 | grad norm: 0.432 | num zeros: 0.0 |
[2026-03-01 05:06:07,089] [INFO] [logging.py:96:log_dist] [Rank 0] step=130, skipped=0, lr=[1e-05, 1e-05], mom=[(0.9, 0.95), (0.9, 0.95)]
[2026-03-01 05:06:08,190] [INFO] [timer.py:260:stop] epoch=0/micro_step=130/global_step=130, RunningAvgSamplesPerSec=35.79, CurrSamplesPerSec=36.02, MemAllocated=18.3GB, MaxMemAllocated=27.6GB
node-7:41235:58976 [4] NCCL INFO Channel 05/0 : 4[4] -> 5[5] via P2P/IPC/read
node-7:41235:58976 [4] NCCL INFO Channel 13/1 : 12[4] -> 4[4] [receive] via NET/IB/3/GDRDMA
node-7:41235:58976 [4] NCCL INFO Trees [0] 5/-1/-1->4->3 [1] 5/12/-1->4->-1
node-7:41235:58976 [4] NCCL INFO comm 0x55d0c0ffee00 rank 4 nranks 16 cudaDev 4 nvmlDev 4 busId 9d000 commId 0xfeedbeef - Init COMPLETE
[rank3]: 2026-03-01 07:08:09,010 INFO train: batch 512 of 4096 done in 0.321 s, gpu 71.4 GB, 98% busy
(TrainWorker pid=12345, ip=10.0.3.17) epoch 2 batch 300 loss 0.6931 (0.7012) lr 0.00100
[1,5]<stdout>:Train Epoch: 1 [23040/60000 (38%)]	Loss: 0.354712
10.1.2.3: worker 6: saved checkpoint-5000 to s3://bucket/runs/model/checkpoint-5000/ in 8.7 s
default 0: [INFO|trainer.py:2526] 2026-03-01 09:10:11,121 >> Num examples = 52,002, total train batch size (w. parallel, distributed & accumulation) = 128
"""
