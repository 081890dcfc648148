# SPDX-License-Identifier: Apache-2.0
"""Keras 3 and tf_keras: `fit` by epochs, evaluation, saving; and the callback of ``guard.keras()``.

Steps inside `fit` are seen as executions of its train function, so the added callback has no batch hooks: with one,
Keras would fetch the logs of every batch from the device.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.errors import UserError
from keepstep.guard.adapters.tensorflow import uneven_batches
from keepstep.guard.adapters.tensorflow.tensorflow_state import replace
from keepstep.guard.adapters.tracebacks import leave_out_own_frames
from keepstep.guard.import_hook import after_import
from keepstep.guard.record.named_pauses import in_phase
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.contracts import Subject

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts

MODELS = {
    "keras.src.models.model": ("keras", "keras.src.saving.saving_lib"),
    "tf_keras.src.engine.training": ("tf_keras", None),
    "keras.src.engine.training": ("keras", None),
    "keras.engine.training": ("keras", None),
}
"""Modules that define `Model` in the generations of Keras; the package's name, and where Keras 3 saves."""
OPTIMIZERS = (
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "apply"),
    ("tf_keras.src.optimizers.optimizer", "Optimizer", "apply_gradients"),
)
COMPUTE, CHECKPOINT, EVALUATION = int(BoxPhase.COMPUTE), int(BoxPhase.CHECKPOINT), int(BoxPhase.EVALUATION)


def attach(session: Adapts, state: Any = None) -> None:
    """Hook into every Keras that the training has imported or will import."""
    after_import({name: functools.partial(_hook, session, state) for name in MODELS})


def _hook(session: Adapts, state: Any, module: Any) -> None:
    try:
        package, saving = MODELS[module.__name__]
        model = module.Model
        for name in ("evaluate", "predict"):
            _wrap(session, _owner(model, name), name, in_phase(session, EVALUATION))
        saves = session.ledger.saves("keras", lambda: _version(package), _of_model)
        loads, loads_model = session.ledger.loads(_of_model), session.ledger.loads(_alone)
        for name, recorded in (("save", saves), ("save_weights", saves), ("load_weights", loads)):
            _wrap(session, _owner(model, name), name, _pause(session, recorded))
        if saving in sys.modules:
            for name, recorded in (
                ("save_model", saves),
                ("load_model", loads_model),
                ("save_weights_only", saves),
                ("load_weights_only", loads),
            ):
                _wrap(session, sys.modules[saving], name, _pause(session, recorded))
        _wrap(session, _owner(model, "fit"), "fit", lambda original: _fit(session, state, package, original))
        for place, name, method in OPTIMIZERS:
            owner = getattr(sys.modules.get(place), name, None)
            if owner is not None and place.startswith(f"{package}.") and state is not None:
                _wrap(session, owner, method, lambda original: _updated(session, state, original))
        for place in ("src.utils.traceback_utils", "utils.traceback_utils"):
            leave_out_own_frames(sys.modules.get(f"{package}.{place}"))
    except Exception as error:
        session.failed("keras", error)


def _pause(session: Adapts, recorded: Callable[[Any], Callable[..., Any]]) -> Callable[[Any], Callable[..., Any]]:
    """In the phase of checkpoints, and in the ledger."""
    phase = in_phase(session, CHECKPOINT)
    return lambda original: phase(recorded(original))


def _version(package: str) -> str:
    return f"{package} {getattr(sys.modules.get(package), '__version__', 'of unknown version')}"


def _of_model(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
    return filepath


def _alone(filepath: Any, *args: Any, **kwargs: Any) -> Any:
    return filepath


def _wrap(session: Adapts, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    replace(session, f"keras {name}", owner, name, make)


def _owner(model: Any, name: str) -> Any:
    """The class that defines a method: the trainer of the backend, in Keras 3."""
    return next((each for each in model.__mro__ if name in vars(each)), None)


def _updated(session: Adapts, state: Any, original: Any) -> Callable[..., Any]:
    """In a loop without any `tf.function`, the eager updates of the first optimizer are the steps."""

    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if state.replicas is not None:
            state.replicas.updated(self)
        if state.in_run:
            state.updates += 1
        if state.in_run or not state.executing_eagerly() or getattr(state.local, "inside", False):
            return result
        if state.leading is None and session.steps == 0:
            with session.part("steps"):
                state.leading = id(self)
                session.open()
                state.first_step()
        if state.leading == id(self):
            session.phase(COMPUTE)
            session.step_done()
            if state.replicas is not None:
                state.replicas.stepped()
        return result

    return apply


def _fit(session: Adapts, state: Any, package: str, original: Any) -> Callable[..., Any]:
    """`fit` with one more callback, after the user's."""
    more = session.guarded("keras fit", _with_callback)

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        changed = more(session, state, package, original, (self, *args), kwargs)
        if changed is None:
            return original(self, *args, **kwargs)
        return original(*changed[0], **changed[1])

    return fit


def _with_callback(
    session: Adapts, state: Any, package: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    session.open()
    signature = inspect.signature(original)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None  # the call is wrong, and Keras itself will say so
    known = given.get("callbacks")
    if hasattr(known, "on_train_batch_begin") and hasattr(known, "callbacks"):
        return None  # a finished list of callbacks is used as it is
    own = _EPOCHS.setdefault(package, _class(_epochs_of(package), _Epochs))(session, state)
    several = [*known, own] if isinstance(known, list | tuple) else [own] if known is None else [known, own]
    place = list(signature.parameters).index("callbacks")
    if place < len(args):
        return (*args[:place], several, *args[place + 1 :]), kwargs
    return args, {**kwargs, "callbacks": several}


_EPOCHS: dict[str, Any] = {}


def _epochs_of(package: str) -> tuple[Any, ...]:
    for name in (f"{package}.src.callbacks.callback", f"{package}.src.callbacks", f"{package}.callbacks"):
        found = getattr(sys.modules.get(name), "Callback", None)
        if found is not None:
            return (found,)
    raise LookupError(f"{package} has no Callback")


def _class(bases: tuple[Any, ...], own: type) -> Any:
    return type("Keepstep", (own, *bases), {})


class _Base:
    """What both callbacks share. Keras 2 and 3 set the model differently: this works for both."""

    _supports_tf_logs = True
    async_safe = True

    def __init__(self, session: Adapts, state: Any) -> None:
        super().__init__()
        self._session, self._state, self._before = session, state, COMPUTE

    def set_model(self, model: Any) -> None:
        self._model = model

    @property
    def model(self) -> Any:
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        self._model = model

    def _safely(self, call: Callable[[], None]) -> None:
        with self._session.part("keras callback"):
            call()


class _Epochs(_Base):
    """Added to `fit`: epochs, and what the optimizers of all ranks are set to."""

    def on_train_begin(self, logs: Any = None) -> None:
        self._safely(self._compare_optimizer)
        self._safely(self._compare_lengths)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._safely(self._end_epoch)

    def _end_epoch(self) -> None:
        if self._state is not None:
            uneven_batches.epoch_ended(self._state)

    def _workers(self) -> int:
        strategy = getattr(self._model, "distribute_strategy", None)
        return int(getattr(getattr(strategy, "extended", None), "_num_workers", 1) or 1)

    def _compare_lengths(self) -> None:
        """How many batches Keras will take per epoch: `steps_per_epoch`, or what the dataset says about itself."""
        if self._workers() > 1 and self._state is not None:
            steps = (getattr(self, "params", None) or {}).get("steps")
            uneven_batches.compare_lengths(self._state, steps if isinstance(steps, int) else None)

    def _compare_optimizer(self) -> None:
        if self._workers() < 2:
            return
        optimizer = getattr(self._model, "optimizer", None)
        if optimizer is not None:
            self._session.compare(Subject.OPTIMIZER, optimizer_words(optimizer))


def optimizer_words(optimizer: Any) -> dict[str, str]:
    """Its class and its settings."""
    stated = {"optimizer": type(optimizer).__name__}
    for name, value in optimizer.get_config().items():
        if name not in ("name", "is_legacy_optimizer"):
            stated[str(name)] = (
                value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)[:200]
            )
    return stated


class _ByHand(_Base):
    """``guard.keras()``: the script reports its steps through this callback."""

    def on_train_begin(self, logs: Any = None) -> None:
        self._session.by_hand = True
        self._safely(self._session.open)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._session.phase(COMPUTE)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._session.step_done(by_hand=True)

    def on_test_begin(self, logs: Any = None) -> None:
        self._before = self._session.phase(EVALUATION)

    def on_test_end(self, logs: Any = None) -> None:
        self._session.phase(self._before)


def callback(session: Adapts) -> Any:
    """A callback for `fit`, of each Keras that is imported."""
    bases = []
    for package in ("keras", "tf_keras"):
        if package in sys.modules:
            bases += [base for base in _epochs_of(package) if base not in bases]
    if not bases:
        raise UserError("no Keras is imported yet", hint="import keras (or tf_keras) before guard.keras()")
    return _class(tuple(bases), _ByHand)(session, None)
