# SPDX-License-Identifier: Apache-2.0
"""Tells TensorFlow about the workers of this job."""

import json
import os


def join(port=4000):
    names = os.environ["WORKERS"].split(",")
    task = {"type": "worker", "index": int(os.environ["WORKER"])}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": [f"{name}:{port}" for name in names]}, "task": task})  # BUG COD211
