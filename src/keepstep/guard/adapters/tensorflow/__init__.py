# SPDX-License-Identifier: Apache-2.0
"""The guard's hooks in TensorFlow and Keras. `attach.py` puts them in place."""
