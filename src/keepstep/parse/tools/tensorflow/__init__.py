# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Keras: the runtime, strategies, input, checkpoints."""
