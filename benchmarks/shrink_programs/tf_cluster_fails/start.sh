#!/bin/bash
# Two workers on this machine.
set -e
WORKERS='["localhost:23471", "localhost:23472"]'
export EPOCHS=3 PER_WORKER_BATCH=8
pids=()
for index in 1 2; do
  TF_CONFIG="{\"cluster\": {\"worker\": $WORKERS}, \"task\": {\"type\": \"worker\", \"index\": $index}}" \
    python train.py &
  pids+=($!)
done
for pid in "${pids[@]}"; do
  wait "$pid"
done
