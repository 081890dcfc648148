# SPDX-License-Identifier: Apache-2.0
"""What looks like a bug of a distributed TensorFlow program and is none; each was found in public code once."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.check.code.check_code import CodeRequest, check_code

STEP = """
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()
"""

NEAR_MISSES = {
    "COD201 whoever calls it has entered the scope": """
import tensorflow as tf

class Runner:
    def __init__(self):
        self.strategy = tf.distribute.get_strategy()
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(1)])

    def step(self, batch):
        self.strategy.run(self._step, args=(batch,))

    def _step(self, batch):
        return self.model(batch)
""",
    "COD201 a part of a model is made with it": STEP
    + """
class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = tf.keras.Sequential([tf.keras.layers.Dense(1)])

    def call(self, x):
        return self.inner(x)

with strategy.scope():
    net = Net()

def step(x):
    return net(x)

strategy.run(step, args=(batch,))
""",
    "COD202 a loaded model is trained on one device on purpose": STEP
    + """
model.save("kept.keras")
alone = tf.keras.models.load_model("kept.keras")
alone.fit(dataset)
""",
    "COD203 the default strategy has no replicas": """
import tensorflow as tf

def train_step(batch, model, optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(batch))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

dataset = tf.distribute.get_strategy().distribute_datasets_from_function(make)
train_step(next(iter(dataset)), model, optimizer)
""",
    "COD204 the copies of a counter agree": STEP
    + """
with strategy.scope():
    count = tf.Variable(0)

def step(x):
    count.assign_add(1)

strategy.run(step, args=(batch,))
""",
    "COD206 a helper divides": STEP
    + """
def loss_fn(x):
    return tf.reduce_mean(model(x)) / strategy.num_replicas_in_sync

def step(x):
    with tf.GradientTape() as tape:
        loss = loss_fn(x)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

strategy.run(step, args=(batch,))
""",
    "COD207 each part of the loss is scaled once": STEP
    + """
def step(x):
    with tf.GradientTape() as tape:
        main = tf.nn.compute_average_loss(tf.square(model(x)), global_batch_size=64)
        extra = tf.add_n(model.losses) / strategy.num_replicas_in_sync
        loss = main + extra
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

strategy.run(step, args=(batch,))
""",
    "COD209 variables are made while the step is traced": STEP
    + """
kept = []

def step(x):
    if not kept:
        kept.extend([tf.Variable(tf.zeros_like(each)) for each in model.trainable_variables])
    return model(x)

@tf.function
def train(x):
    return strategy.run(step, args=(x,))
""",
    "COD211 TF_CONFIG is for the processes that are started": """
import json
import os
import subprocess
import tensorflow as tf

os.environ.pop("TF_CONFIG", None)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
os.environ["TF_CONFIG"] = json.dumps(make_config())
subprocess.run(["python", "main.py"])
""",
    "COD213 a function returns the function": STEP
    + """
def get_dataset_fn(files):
    def dataset_fn(context):
        return tf.data.TFRecordDataset(files).batch(8)
    return dataset_fn

made = get_dataset_fn(["a"])
batches = strategy.distribute_datasets_from_function(made)
""",
    "COD214 the global size is for the case without replicas": STEP
    + """
class Reader:
    def build(self, context):
        dataset = tf.data.Dataset.range(100)
        if context and self.replicas > 1:
            return dataset.batch(self.local_batch_size)
        else:
            return dataset.batch(self.global_batch_size)

    def distributed(self):
        return strategy.distribute_datasets_from_function(self.build)
""",
    "COD222 the model belongs to another strategy": """
import tensorflow as tf
from keras import ops

several = tf.distribute.MultiWorkerMirroredStrategy()
mirrored = tf.distribute.MirroredStrategy()
with mirrored.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(dataset)
""",
    "COD224 the batches are only looked at": """
import tensorflow as tf

strategy = tf.distribute.TPUStrategy(resolver)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.fit(train_dataset)
shown = train_dataset.unbatch().batch(9).as_numpy_iterator()
""",
    "COD228 what came before has returned": """
import tensorflow as tf

def export():
    return tf.zeros([1])

def main(only_export):
    if only_export:
        export()
        return
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
""",
    "COD203 the loop trains on one device on purpose": """
import tensorflow as tf

strategy = tf.distribute.OneDeviceStrategy("/gpu:0")
with strategy.scope():
    for batch in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
""",
    "COD205 a target network follows the model": STEP
    + """
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    for slow, fast in zip(target.weights, model.weights):
        slow.assign(0.99 * slow + 0.01 * fast)

strategy.run(step, args=(batch,))
""",
    "COD205 gradients are gathered for the optimizer": STEP
    + """
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
    grads = tape.gradient(loss, model.trainable_variables)
    for kept, grad in zip(gathered, grads):
        kept.assign_add(grad)
    norm.assign(tf.linalg.global_norm(grads))

strategy.run(step, args=(batch,))
""",
    "COD206 the losses of the examples are divided by the global batch": STEP
    + """
def step(x, y):
    with tf.GradientTape() as tape:
        each = tf.keras.losses.mse(y, model(x))
        loss = tf.reduce_sum(each) / GLOBAL_BATCH
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

strategy.run(step, args=batch)
""",
    "COD210 the long text is a form that is filled in": """
import os
import tensorflow as tf

FORM = '''{"cluster": {"worker": ["first.example:1234", "second.example:1234"]},
"task": {"type": "worker", "index": @}}'''
os.environ["TF_CONFIG"] = FORM.replace("@", os.environ["SLURM_PROCID"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
""",
    "COD229 the first argument is given already": STEP
    + """
import functools

def make(dataset, context):
    return dataset.batch(context.get_per_replica_batch_size(8))

batches = strategy.distribute_datasets_from_function(functools.partial(make, tf.data.Dataset.range(8)))
""",
    "COD229 the argument is not used for that": STEP
    + """
dataset = tf.data.Dataset.range(8)
batches = strategy.distribute_datasets_from_function(lambda context: dataset.batch(2).take(context.num_input_pipelines))
""",
    "COD230 only without a strategy the dataset is plain": STEP
    + """
def train(several):
    dataset = tf.data.Dataset.range(8).batch(2)
    if several:
        batches = strategy.experimental_distribute_dataset(dataset)
    else:
        batches = dataset
    for batch in batches:
        strategy.run(step, args=(batch,))

def step(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
""",
    "COD230 each worker has its own rows": """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

def step(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

dataset = tf.data.Dataset.range(8).shard(workers, worker).batch(2)
for batch in dataset:
    strategy.run(step, args=(batch,))
""",
    "COD231 the task is set afterwards": """
import os
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["a:1", "b:1"]}))
resolver.task_type = "worker"
resolver.task_id = int(os.environ["RANK"])
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
""",
    "COD231 a coordinator of parameter servers has no task": """
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
strategy = tf.distribute.ParameterServerStrategy(resolver)
""",
    "COD233 the pattern may mean many files": """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
dataset = tf.data.TFRecordDataset(tf.io.gfile.glob("train-*.tfrecord"))
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
model.fit(dataset.with_options(options))
""",
    "COD005 the GPU's use stands beside the host's": """
import psutil
import GPUtil

cpu = psutil.cpu_percent()
gpu = GPUtil.getGPUs()[0].load
print(f"GPU usage: {gpu}, CPU usage: {cpu}")
""",
    "COD015 it measures now and then": STEP
    + """
import psutil

def step(x):
    return model(x)

for number, batch in enumerate(batches):
    strategy.run(step, args=(batch,))
    if number % 100 == 0:
        print(psutil.cpu_percent(interval=1))
""",
    "COD016 trials that fail are left out": STEP
    + """
for rate in (0.1, 0.01):
    try:
        model.fit(dataset)
    except Exception as error:
        print("left out", rate, error)
""",
    "COD016 the status is told at the end": STEP
    + """
import sys

def main():
    try:
        model.fit(dataset)
    except Exception as error:
        print(error)
        return 1
    return 0

sys.exit(main())
""",
    "COD016 only the user stops it": STEP
    + """
try:
    model.fit(dataset)
except KeyboardInterrupt:
    print("stopped")
""",
    "COD017 only the shape is asked for": """
import jax
import jax.numpy as jnp
import torch

shape = jax.eval_shape(lambda: jnp.zeros((1_000_000, 1_000_000)))
ghost = torch.empty(1_000_000, 1_000_000, device="meta")
""",
    "COD018 the program is of the first version": """
import tensorflow as tf

def mean(x):
    return tf.tpu.cross_replica_sum(x) / 8

def main(_):
    with tf.Session() as session:
        session.run(mean(tf.placeholder(tf.float32)))
""",
    "COD018 it asks first whether the name is there": """
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
if hasattr(strategy, "gather_all"):
    strategy.gather_all(x)
""",
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_it_is_not_reported(name: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(NEAR_MISSES[name])
    report = check_code(CodeRequest(paths=(path,), select=(name.split()[0],))).report
    assert not report.crashed
    assert [each.title for each in report.findings] == []


VARIANTS = {
    "COD202": (
        STEP
        + """
def get(path):
    if exists(path):
        net = tf.keras.models.load_model(path)  # here
    else:
        with strategy.scope():
            net = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    return net
"""
    ),
    "COD207": (
        STEP
        + """
loss_object = tf.keras.losses.MeanSquaredError()

def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_object(y, model(x)) / strategy.num_replicas_in_sync  # here
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

strategy.run(step, args=(x, y))
"""
    ),
    "COD210": """
import json
import os

def configure(hosts):
    config = {
        "cluster": {"worker": hosts},
        "task": {"type": "worker", "index": 0},
    }
    os.environ["TF_CONFIG"] = json.dumps(config)  # here
""",
    "COD214": (
        STEP
        + """
def make(per_replica):
    batch = per_replica * strategy.num_replicas_in_sync
    def inputs(context):
        return tf.data.Dataset.range(100).repeat().batch(batch)  # here
    return strategy.distribute_datasets_from_function(inputs)
"""
    ),
    "COD218": """
import tensorflow as tf

class Job:
    def __init__(self):
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        self.chief = self.strategy.cluster_resolver.task_id == 0
        self.manager = tf.train.CheckpointManager(make(), folder(), max_to_keep=3)

    def run(self):
        for step in range(100):
            if step % 10 == 0 and self.chief:
                self.manager.save()  # here
""",
    "COD221": """
import tensorflow as tf

def compiled():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model.compile(
        optimizer="sgd",
        run_eagerly=True,  # here
    )
    return model

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = compiled()
""",
}


@pytest.mark.parametrize("rule", VARIANTS)
def test_it_is_reported_at_its_line(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(VARIANTS[rule])
    wanted = next(at for at, line in enumerate(VARIANTS[rule].split("\n"), 1) if "# here" in line)
    report = check_code(CodeRequest(paths=(path,), select=(rule,))).report
    assert not report.crashed
    assert [(each.rule, each.evidence[0].origin.line) for each in report.findings] == [(rule, wanted)]
