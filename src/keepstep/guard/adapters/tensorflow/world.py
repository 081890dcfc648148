# SPDX-License-Identifier: Apache-2.0
"""The worlds that strategies form, and the variables they create: initial values are the first collectives."""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Callable
from typing import Any

from keepstep.guard.adapters.tensorflow.exchange import ConfigKeys, of_formed_world
from keepstep.guard.adapters.tensorflow.parameter_servers import ParameterServers
from keepstep.guard.adapters.tensorflow.tensorflow_state import CALL, NEXT, TensorFlowState, first, inside, replace
from keepstep.guard.agree.arrivals import LOOPBACK, rendezvous
from keepstep.signals.contracts import REMARK, Subject


def attach(state: TensorFlowState) -> None:
    session = state.session
    multi = first("distribute.collective_all_reduce_strategy")
    extended = getattr(multi, "CollectiveAllReduceExtended", None)
    replace(session, "multi-worker strategies", extended, "__init__", lambda original: _strategy_made(state, original))
    replace(
        session,
        "variables of strategies",
        extended,
        "_get_variable_creator_initial_value",
        lambda original: _variable_made(state, original),
    )
    servers = first("distribute.parameter_server_strategy_v2")
    owner = getattr(servers, "ParameterServerStrategyV2", None)
    replace(
        session, "parameter server strategies", owner, "__init__", lambda original: _servers_joined(state, original)
    )
    server = getattr(inside("training.server_lib"), "Server", None)
    replace(session, "servers", server, "__init__", lambda original: _server_started(state, original))
    _look_for_earlier_world(state)


def _look_for_earlier_world(state: TensorFlowState) -> None:
    """The script's own call may start the guard after its strategy has formed a world."""
    found = of_formed_world()
    if found is None:
        return
    exchange, index, size = found
    state.world, state.formed, state.joined = size, True, True
    state.session.world_formed(size, index, "tensorflow")
    state.session.use_exchange(exchange)
    state.session.compare(Subject.VERSIONS, _versions(state))


def _strategy_made(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    told = state.session.guarded("multi-worker strategies", _tell_strategy)

    place = state.session.guarded("start-up words", _meeting_place)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        size, index, at, here = place(*args, **kwargs) or (None, None, None, False)
        with rendezvous(
            state.session, "tensorflow", None if state.formed else size, index, at, here=here, holds_lock=True
        ):
            original(self, *args, **kwargs)
        told(state, self)

    return init


def _meeting_place(
    strategy: Any = None, cluster_resolver: Any = None, *more: Any, **others: Any
) -> tuple[int | None, int | None, str | None, bool]:
    """Called with the strategy's arguments: number of workers, own index, first address, whether all are here."""
    if cluster_resolver is None:  # as the strategy itself does
        cluster_resolver = inside("distribute.cluster_resolver.tfconfig_cluster_resolver").TFConfigClusterResolver()
    tasks = cluster_resolver.cluster_spec().as_dict()
    workers = [*tasks.get("chief", ()), *tasks.get("worker", ())]
    role, index = cluster_resolver.task_type, cluster_resolver.task_id
    if role not in ("chief", "worker") or len(workers) < 2:
        return None, None, None, False
    hosts = {address.rpartition(":")[0] for address in workers}
    here = hosts <= {*LOOPBACK, socket.gethostname()}
    return len(workers), int(index or 0) + (role == "worker" and len(tasks.get("chief", ()))), workers[0], here


def _tell_strategy(state: TensorFlowState, extended: Any) -> None:
    size, index = int(extended._num_workers), int(extended._id_in_cluster)
    if getattr(extended, "_task_type", None) == "evaluator":
        state.alone_by_design = True
        return
    session = state.session
    state.joined = True
    if size < 2 or state.formed:
        if not state.formed:
            session.world_formed(size, index, "tensorflow")
        return
    state.world, state.formed = size, True
    session.world_formed(size, index, "tensorflow")
    context = inside("eager.context").context()
    if getattr(context, "coordination_service", None) is None:
        session.uncovered("words between ranks", "this strategy has no coordination service")
        return
    session.use_exchange(ConfigKeys(context))
    session.compare(Subject.VERSIONS, _versions(state))
    options = getattr(extended, "_communication_options", None)
    session.compare(Subject.OPTIONS, _options(options) | {"devices of a worker": str(extended._num_devices_per_worker)})


def _versions(state: TensorFlowState) -> dict[str, str]:
    found = {"tensorflow": state.version, "python": platform.python_version()}
    for name in ("tf_keras", "keras", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def _options(options: Any) -> dict[str, str]:
    words = {}
    for name in ("implementation", "bytes_per_pack", "timeout_seconds"):
        value = getattr(options, name, None)
        words[name.replace("_", " ")] = str(getattr(value, "value", value))
    return words


def _variable_made(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    """After a variable's initial value is computed and before its broadcast, all ranks agree on what it is."""
    session = state.session
    counted = session.guarded("variables of strategies", _agree_on)

    def creator(self: Any, replica_id: Any, device: Any, primary_var: Any, **kwargs: Any) -> Any:
        initial = kwargs.get("initial_value")
        if replica_id == 0 and state.formed and initial is not None and getattr(self, "_num_workers", 1) > 1:
            name, dtype = kwargs.get("name"), kwargs.get("dtype")

            def shown() -> Any:
                value = initial() if callable(initial) else initial
                counted(state, value, name, dtype)
                return value

            kwargs["initial_value"] = shown
        return original(self, replica_id, device, primary_var, **kwargs)

    return creator


def _agree_on(state: TensorFlowState, value: Any, name: Any, dtype: Any) -> None:
    if not state.executing_eagerly():
        return  # part of a graph, and reported with it
    value = getattr(value, "wrapped_value", value)
    shape = getattr(value, "shape", ())
    sizes = ",".join("?" if size is None else str(size) for size in tuple(shape))
    kind = dtype or getattr(value, "dtype", None) or type(value).__name__
    state.variables += 1
    words = f"variable {state.variables} {getattr(kind, 'name', kind)}[{sizes}]" + (
        f"{REMARK}{str(name)[:120]}" if name else ""
    )
    state.session.agree(Subject.PROGRAM, {NEXT: words, CALL: f"next{REMARK}{state.calls + 1}"})


def _servers_joined(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    told = state.session.guarded("parameter server strategies", _tell_servers)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        told(state, getattr(self, "_cluster_resolver", None))

    return init


def _tell_servers(state: TensorFlowState, resolver: Any) -> None:
    """Only the coordinator runs the program: there is a world, but no rank to agree with."""
    spec = resolver.cluster_spec()
    size = sum(spec.num_tasks(job) for job in spec.jobs)
    state.world, state.formed, state.coordinated = max(size, 1), True, True
    state.session.world_formed(size, None, "tensorflow")
    if "ps" in spec.jobs:
        ParameterServers(state.session, spec.job_tasks("ps")).watch()


def _server_started(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    told = state.session.guarded("servers", _serves)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        told(state)

    return init


def _serves(state: TensorFlowState) -> None:
    """The coordinator trains; this process is ended from outside. (In a notebook the coordinator may run servers.)"""
    session = state.session
    if session.who.role in ("worker", "ps"):
        state.alone_by_design = session.who.serves = True
        session.tell_who()
