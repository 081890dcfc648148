"""The rank's data set is not normalised from its 30th batch on: the loss and then the weights overflow.

(A NaN instead would go unseen here: TensorFlow's ReLU on CPU turns it into 0.)
"""

from typing import Any


def change_data(data: Any) -> Any:
    import tensorflow as tf

    def spoil(index: Any, batch: Any) -> Any:
        inputs, labels = batch
        return tf.where(index < 30, inputs, inputs * 1e30), labels

    return data.enumerate().map(spoil)
