"""Speed and memory, measured as ratios in one run. Started by ``make bench``."""
