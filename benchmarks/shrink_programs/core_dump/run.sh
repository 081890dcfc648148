torchrun --standalone --nproc-per-node 3 train.py --epochs 3 --batch 4
