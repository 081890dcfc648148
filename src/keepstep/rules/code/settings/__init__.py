# SPDX-License-Identifier: Apache-2.0
"""What is known about the files beside a program: DeepSpeed's JSON, Accelerate's YAML, scripts, manifests (COD4)."""
