# SPDX-License-Identifier: Apache-2.0
"""Questions about Python exceptions: whose they are, and which ones only pass on another failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from keepstep.model.facts import BatchNotDivisible, ExceptionRaised, Fact, Frame, ProcessExited
from keepstep.rules.api import Evidence, EvidenceSet, lazy_pattern

Raised = Evidence[ExceptionRaised]

OF_THE_PROGRAM = frozenset(
    """
    KeyError AttributeError TypeError NameError IndexError ZeroDivisionError UnboundLocalError NotImplementedError
    SyntaxError IndentationError RecursionError
    """.split()
)
"""Types that trouble between ranks never raises: a lost peer near one of them is its consequence."""

_LIBRARY = lazy_pattern(
    r"(?:site|dist)-packages|/lib(?:64)?/python[\d.]+/|/lib/pypy|<frozen |<string>|/usr/lib/|\\lib\\|\\Lib\\"
    r"|/multiprocessing/"
    r"|importlib|runpy\.py|(?:^|/)(?:threading|contextlib|queue|subprocess|os|json|pickle|zipfile)\.py$"
    r"|/bin/(?:torchrun|accelerate|deepspeed)$"
    r"|/keepstep/guard/"
)

_WRAPPERS = frozenset(
    """
    ChildFailedError CalledProcessError ProcessRaisedException ProcessExitedException SystemExit KeyboardInterrupt
    GeneratorExit SignalException RayTaskError RayActorError ActorDiedError WorkerCrashedError TrainingFailedError
    WorkerGroupError ControllerError StartTraceback StartTracebackWithWorkerRank WorkerHealthCheckFailedError
    TuneError BrokenProcessPool RemoteTraceback HorovodInternalError TimeoutExpired UnexpectedStatusException
    ExecuteUserScriptError
    """.split()
)

_OF_PEERS = frozenset(
    """
    DistBackendError DistNetworkError DistStoreError DistError UnavailableError AbortedError CancelledError
    DeadlineExceededError RpcError _InactiveRpcError _MultiThreadedRendezvous _Rendezvous ConnectionResetError
    ConnectionRefusedError ConnectionAbortedError BrokenPipeError RendezvousTimeoutError RendezvousConnectionError
    RendezvousClosedError RendezvousGracefulExitError WorkerPreemptionError
    """.split()
)
_PEER_STATUS = lazy_pattern(r"\b(?:UNAVAILABLE|ABORTED|CANCELLED|DEADLINE_EXCEEDED)\b")
_PEER_WORDS = lazy_pattern(
    r"[NHRX]CCL|[Gg]loo|c10d|TCPStore|Connection (?:closed|reset)|Socket (?:Timeout|closed)|Broken pipe"
    r"|Horovod has been shut down"
    r"|process \d+ terminated with (?:exit code|signal)|exited unexpectedly|Stop_waiting response|MPI_ABORT|Rendezvous"
)
_AWAITED = lazy_pattern(
    r"(?i)\b(?:barrier|rendezvous|collective|all_?reduce|all_?gather|ranks?|peers?|other (?:processes|workers|hosts))\b"
)
"""What a rank that gave up waiting for others says it waited for."""
_DIED_WORDS = lazy_pattern(
    r"^process \d+ terminated with (?:exit code|signal)"
    r"|^(?:[Pp]rocess|[Rr]ank|[Ww]orker|[Tt]ask) #?\d{1,3} (?:has )?(?:failed|died|crashed|exited)\b"
    r"|^(?:One or more )?[Ww]orkers? (?:failed|died)"
    r"|^-- Process \d+ terminated with the following error"
    r"|^(?:mpirun|jsrun|[Hh]orovodrun) failed with exit code|^Horovod detected that one or more processes exited"
    r"|^Spark job has failed, see"
    r"|^(?:Suffered a failure during|(?:Distributed )?[Tt]raining (?:job |run |process )?(?:has )?failed)\b"
    r"|^(?:Some|One or more|All) (?:rank|process|worker|task|node)(?:s|es)? (?:have )?(?:failed|exited)\b"
    r"|^Job has been shutdown, see above|^Command failed, making Spark task fail|^Exception in worker:"
    r"|\bAlgorithmError: (?:Exit ?Code|ExecuteUserScriptError)"
)
_SPAWNED = lazy_pattern(r"-- Process (?P<rank>\d+) terminated with the following error")

_OF_A_FRAMEWORK = lazy_pattern(
    r"^(?:horovod|orbax|jaxlib?|flax|tensorstore|tensorflow|torch_xla|torch\.distributed|torch\.multiprocessing"
    r"|deepspeed"
    r"|megatron|ray|grpc|mpi4py|mxnet|pytorch_lightning|lightning(?:_fabric|_utilities)?|accelerate|colossalai"
    r"|fairscale|composer)\."
)
_FRAMEWORK_KINDS = frozenset(
    """
    XlaRuntimeError JaxRuntimeError InternalError UnknownError InvalidArgumentError FailedPreconditionError
    UnimplementedError PermissionDeniedError ResourceExhaustedError UnauthenticatedError AlreadyExistsError
    MisconfigurationException RayError RpcError MPIError LaunchFailure
    """.split()
)
_FRAMEWORK_FILE = lazy_pattern(
    r"(?:site|dist)-packages/(?:horovod|orbax|jaxlib|tensorstore|torch_xla|torch/distributed|torch/multiprocessing"
    r"|deepspeed"
    r"|megatron|ray|grpc|mpi4py|pytorch_lightning|lightning|lightning_fabric|accelerate|colossalai|tensorflow/python"
    r"|tensorflow_core/python|tensorflow_estimator)/"
)

_READS_CHECKPOINTS = lazy_pattern(
    r"torch/serialization\.py|torch/distributed/checkpoint|safetensors|orbax|tensorstore"
    r"|flax/(?:serialization|training/checkpoints)"
    r"|saving_lib\.py|hdf5_format\.py|legacy_h5_format\.py|checkpoint_management|py_checkpoint_reader"
    r"|training/saver\.py|_npyio"
)
_CHECKPOINT_FUNCTION = lazy_pattern(r"(?i)load|restore|resume|checkpoint|ckpt")
_CHECKPOINT_WORD = lazy_pattern(r"(?i)restore|resume|checkpoint|ckpt|load_?(?:state|weights|model|params)")
_UNREADABLE = frozenset(
    """
    EOFError OSError UnpicklingError BadZipFile error PickleError FileNotFoundError IsADirectoryError
    UnicodeDecodeError SafetensorError DataLossError NotADirectoryError LZMAError BadGzipFile
    """.split()
)


def short_type(fact: ExceptionRaised) -> str:
    """The name without its module."""
    return fact.type.rpartition(".")[2]


def is_wrapper(fact: ExceptionRaised) -> bool:
    """Whether it only says that something else failed."""
    return short_type(fact) in _WRAPPERS or bool(_DIED_WORDS.search(fact.message)) or lost_its_parent(fact)


def lost_its_parent(fact: ExceptionRaised) -> bool:
    """Whether a spawned child read only part of its task: the parent failed or was ended while writing it."""
    if short_type(fact) not in ("EOFError", "UnpicklingError") or not fact.frames:
        return False
    return fact.frames[-1].function == "_main" and bool(
        re.search(r"multiprocess(?:ing)?[/\\]spawn\.py$", fact.frames[-1].file or "")
    )


def is_of_peers(fact: ExceptionRaised) -> bool:
    """Whether its type or message only reports trouble with other ranks."""
    kind = short_type(fact)
    if kind in _OF_PEERS:
        return True
    head = fact.message[:600]
    if kind == "TimeoutError" and _AWAITED.search(head):
        return True
    if kind == "XlaRuntimeError" or kind == "JaxRuntimeError":
        return bool(_PEER_STATUS.search(head[:80]))
    return kind in ("RuntimeError", "Exception", "TimeoutError", "InternalError", "UnknownError") and bool(
        _PEER_WORDS.search(head)
    )


def at_teardown(fact: ExceptionRaised) -> bool:
    """Whether it was raised while objects were destroyed, or inside a logger: Python prints it and goes on."""
    if not fact.frames:
        return False
    first = fact.frames[0]
    if first.function == "emit" and re.search(r"[/\\]logging[/\\](?:__init__|handlers)\.py$", first.file or ""):
        return True
    return first.function.rpartition(".")[2] in ("__del__", "_run_exitfuncs", "_run_finalizers", "finalize")


def user_frame(fact: ExceptionRaised) -> Frame | None:
    """The innermost frame outside library files."""
    own = [f for f in fact.frames if f.file and not _LIBRARY.search(f.file)]
    return own[-1] if own else None


_NO_MODULE = lazy_pattern(r"^No module named '?(?P<name>[A-Za-z_][\w.]{0,120})'?")


def missing_module(fact: ExceptionRaised) -> str | None:
    """The module that Python could not find."""
    found = _NO_MODULE.match(fact.message) if short_type(fact) in ("ModuleNotFoundError", "ImportError") else None
    return found["name"].rstrip(".") if found else None


def raised_on_purpose(fact: ExceptionRaised) -> bool:
    """Whether a `raise` or `assert` of the user's own code raised it: then its words are the program's own."""
    last = fact.frames[-1].file if fact.frames else None
    if last is None or is_library_file(last) or not fact.code:
        return False
    return bool(re.search(r"(?:^|[:;] ?)(?:raise|assert) ", fact.code[-1]))


def place_of(fact: ExceptionRaised) -> str:
    """`` in train.py:12``: the innermost line of the user's own code, if there is one."""
    frame = user_frame(fact)
    return f" in {(frame.file or '').replace(chr(92), '/').rpartition('/')[2]}:{frame.line}" if frame else ""


_CHECKED_OUT = lazy_pattern(
    r"/(?:megatron|deepspeed|transformers|accelerate|trl|peft|verl|vllm|nemo|fairseq|colossalai|composer|llmfoundry"
    r"|torchtitan"
    r"|torchtune|lightning|pytorch_lightning|torch|mmcv|mmengine|detectron2|horovod|ray|axolotl|llamafactory|swift"
    r"|openrlhf)/[\w/]{1,200}\.py$"
)


def is_library_file(path: str) -> bool:
    """Whether a file belongs to a library, installed or checked out."""
    plain = path.replace("\\", "/")
    return bool(_LIBRARY.search(path) or _CHECKED_OUT.search(plain))


def is_of_the_program(fact: ExceptionRaised) -> bool:
    """Whether the program's own code raised it, with a type that trouble between ranks never raises."""
    last = fact.frames[-1].file if fact.frames else None
    return short_type(fact) in OF_THE_PROGRAM and last is not None and not _LIBRARY.search(last)


def is_of_a_framework(fact: ExceptionRaised) -> bool:
    """Whether its class, or the code that raised it, belongs to a framework or launcher: it may mean anything."""
    if _OF_A_FRAMEWORK.search(fact.type) or short_type(fact) in _FRAMEWORK_KINDS:
        return True
    last = fact.frames[-1].file if fact.frames else None
    return last is not None and short_type(fact) not in OF_THE_PROGRAM and bool(_FRAMEWORK_FILE.search(last))


_KERAS_LOADS = {"load_weights", "load_model", "load_wrapper", "load_weights_from_hdf5_group"}


def _names_own_reader(frames: tuple[Frame, ...]) -> bool:
    """Whether one of them belongs to a reader used only for checkpoints; NumPy's reads data as well."""
    return any(f.file and _READS_CHECKPOINTS.search(f.file) and "_npyio" not in f.file for f in frames)


def reads_checkpoint(fact: ExceptionRaised) -> bool:
    """Whether it was raised while reading a checkpoint: its frames are a checkpoint reader's, or named like one."""
    if short_type(fact) not in _UNREADABLE and not re.search(
        r"(?i)corrupt|truncated|unexpected EOF|CRC|less bytes than requested", fact.message[:300]
    ):
        return False
    inner = fact.frames[-8:]
    if any(f.file and f.function in _KERAS_LOADS and "keras" in f.file for f in inner):
        return True
    if not any(f.file and _READS_CHECKPOINTS.search(f.file) for f in inner):
        return False
    if any(f.function.startswith(("save", "_save", "dump")) for f in fact.frames):
        return False
    words = _CHECKPOINT_FUNCTION if _names_own_reader(inner) else _CHECKPOINT_WORD
    named = [f for f in fact.frames if words.search(f.function)]
    data = any(
        "dataset" in (f.file or "").lower() or f.function in ("__getitem__", "_worker_loop") for f in fact.frames
    )
    return bool(named) and not data


_PLANS_LOAD = lazy_pattern(r"distributed/(?:_shard/)?checkpoint/|dist_checkpointing/")
_LOADS_STATE = lazy_pattern(
    r"(?i)^_?(?:auto_)?(?:load|restore|resume)\w{0,60}?(?:ckpt|checkpoint|state_?dict|snapshot|weights|pretrained"
    r"|optimizer|_state)\w{0,60}$"
    r"|^_?(?:resume|restore)(?:_from\w*|_training|_model)?$"
)


def lacks_a_name(fact: ExceptionRaised) -> bool:
    """Whether a checkpoint loader looked for a name that the checkpoint, or the model, does not have."""
    if short_type(fact) != "KeyError" or not fact.frames or re.fullmatch(r"['\"][A-Z][A-Z0-9_]*['\"]", fact.message):
        return False
    last = fact.frames[-1]
    if last.function.startswith(("save", "_save", "dump")):
        return False
    return bool(_LOADS_STATE.match(last.function.rpartition(".")[2]) or (last.file and _PLANS_LOAD.search(last.file)))


def ranks_told(seen: EvidenceSet, evidence: Sequence[Evidence[Fact]]) -> tuple[int, ...] | None:
    """The ranks of some evidence; if no line says, the process that a spawner names just above it."""
    known = [e.who for e in evidence if e.who is not None]
    if not known:
        known = [who for e in evidence if (who := _named_above(seen, e)) is not None]
    return tuple(dict.fromkeys(known)) or None


def _named_above(seen: EvidenceSet, place: Evidence[Fact]) -> int | None:
    for raised in reversed(seen.near(place, ExceptionRaised, before=80)):
        spawned = _SPAWNED.search(raised.fact.message)
        if spawned:
            return int(spawned["rank"])
    for ended in reversed(seen.near(place, ProcessExited, before=12)):
        if ended.fact.reporter == "torch_xla" and ended.fact.rank is not None:
            return ended.fact.rank
    return None


def chains(seen: EvidenceSet) -> Iterator[tuple[Raised, ...]]:
    """Exceptions of one stream that were raised from each other, or while handling each other."""
    by_stream: dict[tuple[str, str], list[Raised]] = {}
    for each in seen.all(ExceptionRaised):
        by_stream.setdefault(each.origin.writer, []).append(each)
    for raised in by_stream.values():
        chain: list[Raised] = []
        for each in raised:
            if chain and chain[-1].fact.chained:
                chain.append(each)
            else:
                if chain:
                    yield tuple(chain)
                chain = [each]
        if chain:
            yield tuple(chain)


def is_of_the_teardown(seen: EvidenceSet, place: Evidence[Fact]) -> bool:
    """Whether its stream shows, further up, the exception that the program was leaving by."""
    line = place.origin.line or 0
    last = (chain[-1] for chain in chains(seen))
    return any(
        each.origin.writer == place.origin.writer
        and (each.origin.line or 0) + each.fact.lines < line
        and not (each.fact.logged or each.fact.caught or at_teardown(each.fact) or seen.survived(each))
        for each in last
    )


_OF_THE_MODEL = lazy_pattern(
    r"(?i)heads?\b|hidden|vocab|layers?\b|experts?\b|world_size|partition|parallel_size|embedding"
)


def over_parallel_ranks(seen: EvidenceSet, place: Evidence[BatchNotDivisible]) -> bool:
    """Whether a part of the model, not a batch, could not be divided: the exception's source lines name it."""
    return any(
        "divisible" in each.fact.message
        and any(_OF_THE_MODEL.search(code) and "batch" not in code for code in each.fact.code)
        for each in seen.raised_around(place)
    )
