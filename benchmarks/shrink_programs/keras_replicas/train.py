import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import tensorflow as tf

IMAGE, CLASSES, FILTERS = 16, 10, 12
BATCH, EPOCHS = 32, 4


def replicas(count):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(count)])
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(count)])


def images(count, seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, CLASSES, size=count)
    pixels = generator.normal(size=(count, IMAGE, IMAGE, 1)) * 0.3
    pixels[np.arange(count), labels, labels, 0] += 2.0
    return pixels.astype(np.float32), labels.astype(np.int64)


def build():
    inputs = tf.keras.Input((IMAGE, IMAGE, 1))
    x = tf.keras.layers.Conv2D(FILTERS, 3, padding="same", name="stem")(inputs)
    x = tf.keras.layers.BatchNormalization(name="stem_norm")(x)
    x = tf.keras.layers.ReLU()(x)
    shortcut = x
    x = tf.keras.layers.Conv2D(FILTERS, 3, padding="same", activation="relu", name="block")(x)
    x = tf.keras.layers.Add()([x, shortcut])
    x = tf.keras.layers.Flatten()(x)
    x = tf.keras.layers.Dropout(0.2)(x)
    outputs = tf.keras.layers.Dense(CLASSES, name="head")(x)
    return tf.keras.Model(inputs, outputs)


class Average(tf.keras.callbacks.Callback):
    """Keeps an average of the weights, and trains on from it after each epoch."""

    def __init__(self, decay, start):
        super().__init__()
        self.decay, self.start = decay, start
        self.average = None

    def on_train_begin(self, logs=None):
        self.average = [np.array(value) for value in self.model.get_weights()]

    def on_train_batch_end(self, batch, logs=None):
        for kept, now in zip(self.average, self.model.get_weights(), strict=True):
            kept *= self.decay
            kept += (1 - self.decay) * now

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 < self.start:
            return
        kept = self.average
        for variable, value in zip(self.model.trainable_variables, kept, strict=False):
            variable.assign(value)
        print(f"epoch {epoch}: went on from the average", flush=True)


class Report(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        told = ", ".join(f"{name} {value:.3f}" for name, value in sorted((logs or {}).items()))
        print(f"epoch {epoch}: {told}", flush=True)


def dataset(pixels, labels, batch, shuffle):
    data = tf.data.Dataset.from_tensor_slices((pixels, labels))
    if shuffle:
        data = data.shuffle(len(labels), seed=1)
    return data.batch(batch, drop_remainder=True).prefetch(2)


def main():
    strategy = replicas(2)
    print(f"{strategy.num_replicas_in_sync} replicas", flush=True)
    tf.keras.utils.set_random_seed(5)
    with strategy.scope():
        model = build()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(2e-3),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    train = dataset(*images(320, 1), BATCH, shuffle=True)
    valid = dataset(*images(64, 2), BATCH, shuffle=False)
    callbacks = [tf.keras.callbacks.ReduceLROnPlateau(patience=2), Average(decay=0.95, start=2), Report()]
    model.fit(train, validation_data=valid, epochs=EPOCHS, callbacks=callbacks, verbose=0)
    print("accuracy", model.evaluate(valid, verbose=0)[1], flush=True)


if __name__ == "__main__":
    main()
