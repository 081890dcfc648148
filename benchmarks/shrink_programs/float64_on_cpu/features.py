"""Windows over a long series, normalised as the TPU job does it."""

import numpy as np


def series(length, channels, seed):
    generator = np.random.default_rng(seed)
    time = np.arange(length)[:, None] / 50
    waves = np.sin(time * (1 + np.arange(channels))) + 0.1 * generator.standard_normal((length, channels))
    return waves.astype(np.float32)


def statistics(data):
    """Mean and spread of each channel; in double precision, for long series."""
    mean = data.astype(np.float64).mean(axis=0)
    spread = data.astype(np.float64).std(axis=0)
    return mean, spread


def windows(data, width, stride):
    starts = range(0, len(data) - width - 1, stride)
    inputs = np.stack([data[begin : begin + width] for begin in starts])
    targets = np.stack([data[begin + width] for begin in starts])
    return inputs, targets


def normalised(data, mean, spread):
    return (data - mean) / np.maximum(spread, 1e-6)


def batches(inputs, targets, size, epochs, seed=0):
    generator = np.random.default_rng(seed)
    for _ in range(epochs):
        order = generator.permutation(len(inputs))
        for begin in range(0, len(order) - size + 1, size):
            chosen = order[begin : begin + size]
            yield inputs[chosen], targets[chosen]
