# SPDX-License-Identifier: Apache-2.0
"""Fits a polynomial whose normal equations need double precision.

From: https://github.com/jax-ml/jax/issues/1333
Shows: differs 1 rank jax: the sums are kept in single precision
"""

import jax
import jax.numpy as jnp
import numpy as np

DEGREE = 6


def points(count):
    rng = np.random.default_rng(0)
    x = rng.uniform(10.0, 11.0, size=count)
    return x, np.polyval([1.0, -2.0, 0.0, 4.0], x - 10.0)


@jax.jit
def accumulate(gram, moment, x, y):
    powers = jnp.stack([(x - 10.5) ** k for k in range(DEGREE)], axis=1)
    return gram + powers.T @ powers, moment + powers.T @ y


def fit(x, y, batch):
    gram = jnp.zeros((DEGREE, DEGREE), dtype=jnp.float64)  # BUG COD309
    moment = jnp.zeros(DEGREE)
    for first in range(0, len(x), batch):
        gram, moment = accumulate(gram, moment, x[first : first + batch], y[first : first + batch])
    return jnp.linalg.solve(gram, moment)


def residual(coefficients, x, y):
    powers = jnp.stack([(x - 10.5) ** k for k in range(DEGREE)], axis=1)
    return float(jnp.max(jnp.abs(powers @ coefficients - y)))


def main():
    x, y = points(4000)
    coefficients = fit(x, y, batch=500)
    print(f"{coefficients.dtype}: residual below 1e-8: {residual(coefficients, x, y) < 1e-8}")


if __name__ == "__main__":
    main()
