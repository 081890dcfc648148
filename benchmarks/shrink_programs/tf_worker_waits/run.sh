python launch.py --workers 2 -- --batch 10 --epochs 2
