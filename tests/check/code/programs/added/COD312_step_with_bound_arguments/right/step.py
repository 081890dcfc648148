# SPDX-License-Identifier: Apache-2.0
import functools

import jax
import optax


def train_step(state, batch, *, model, tx):
    def loss_fn(params):
        logits = model.apply({"params": params}, batch["x"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    grads = jax.lax.pmean(grads, "devices")
    updates, opt = tx.update(grads, state["opt"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, loss


def make(model, tx):
    return jax.pmap(functools.partial(train_step, model=model, tx=tx), axis_name="devices")
