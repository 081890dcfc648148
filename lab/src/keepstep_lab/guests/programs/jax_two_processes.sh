#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts two processes of a JAX program on this host, each with its place on the command line: jax_two_processes.sh PORT PROGRAM...
port=$1
shift
pids=()
for id in 0 1; do
  "$@" --coordinator "localhost:$port" --num-processes 2 --process-id "$id" &
  pids+=("$!")
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=$?
done
exit "$status"
