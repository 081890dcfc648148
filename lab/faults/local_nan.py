"""The rank takes the logarithm of a negative number in a computation of its own (JAX)."""


def at(step: int, rank: int) -> None:
    import jax.numpy as jnp

    print("log-likelihood", jnp.log(jnp.float32(-1.0)))
