# SPDX-License-Identifier: Apache-2.0
"""Buddy steps, where asked for: in one step of N, another rank computes what one rank has computed, and compares.

A wrong gradient reaches all replicas alike once it is exchanged, and a device that is wrong is wrong again. So another
one computes it, before the optimizer's step: from the same input, and the same weights, which DDP keeps equal. Where
the results differ, both repeat it and a third rank is the witness. The ranks take turns.

Messages go through torch's store, on a connection of their own. Whoever waits does so for a bounded time.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import time
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keepstep.base.wording import count
from keepstep.base.wording import ranks as say_ranks
from keepstep.guard.adapters.torch.numbers.fingerprints import PLACES
from keepstep.guard.adapters.torch.numbers.recompute import FirstTime, Given, NotRepeatable, packed, repeat, unpacked
from keepstep.guard.adapters.torch.numbers.sums import Sums
from keepstep.guard.adapters.torch.store import base_of
from keepstep.guard.adapters.torch.world import own_store
from keepstep.guard.import_hook import after_import
from keepstep.signals.fingerprints import digest
from keepstep.signals.recomputed import WIDER, Computed, WhoIsOdd, differing, distance, who_is_odd

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

PART = "buddy steps"
WAIT_S, WAIT_STEPS = 10.0, 5
"""The longest wait for another rank, in seconds or usual steps: all have just exchanged their gradients."""
MOST_BYTES, PIECE = 256 << 20, 4 << 20
"""Of a message; torch's store takes no more than 8 MiB at once."""
BASELINE = 2
"""So often this rank must have agreed with others before a difference that does not repeat itself counts."""
LEARNED = 4
"""Where repeats differ in their last bits: so often before a difference counts."""
ROUNDED = 1e-4
"""On a GPU, operations may round differently each time, unless the program forbids it: smaller differences are none."""
PRICED_AT = 3
"""The buddy step whose time is printed; the first ones are slower."""
MOST_FINDINGS = 100
ANSWERS = {"asked": ("ask", "own"), "buddy": ("said",), "witness": ("witness",)}
"""What the others wait for: a rank that fails says that nothing will come."""


def hook(state: TorchState, module: ModuleType) -> None:
    """Only where it is asked for, now or later by ``keepstep.guard.attach(buddy=N)``."""
    session = state.session

    def install() -> None:
        with session.part(PART):
            _install(state, module, BuddySteps(state))

    if session.buddy_every:
        install()
    else:
        session.at_buddy.append(install)


def _install(state: TorchState, module: ModuleType, steps: BuddySteps) -> None:
    kind: Any = module.DistributedDataParallel
    original = kind.__dict__["_run_ddp_forward"]
    begin = state.session.guarded(PART, steps.begin)
    computed = state.session.guarded(PART, steps.computed)

    @functools.wraps(original)
    def _run_ddp_forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        watched = not state.is_traced() and begin(self, inputs, kwargs)
        result = original(self, *inputs, **kwargs)
        if watched:
            computed(result)
        return result

    before = state.session.guarded(PART, steps.before)
    after = state.session.guarded(PART, steps.after)

    def watch(optimizers: Any) -> None:
        optimizers.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: before(optimizer))
        optimizers.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: after(optimizer))

    after_import({"torch.optim.optimizer": watch})
    kind._run_ddp_forward = _run_ddp_forward


class BuddySteps:
    """Those of the first model that DDP wraps."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self._model: Any = lambda: None
        self._ids: set[int] = set()
        self._ranks: tuple[int, ...] = ()
        self._store: Any = None
        self._number = 0
        """Steps of the model's optimizer."""
        self._first: FirstTime | None = None
        self._missing = ""
        """Why this rank's step cannot be computed again."""
        self._why_off = ""
        self._forget_the_past()
        self._done = self._findings = 0
        self._without = 0
        """Steps of optimizers while DDP had wrapped no model."""

    def _forget_the_past(self) -> None:
        self._agreed = 0
        """How often this rank took part and all was equal..."""
        self._agreed_at: int | None = None
        """... and at which step last."""
        self._noise: dict[str, float] = {}
        self._noisy = self._unfaithful = 0

    # --- in the forward pass

    def begin(self, model: Any, inputs: Any, kwargs: Any) -> bool:
        """Whether this forward pass is watched."""
        torch = self._state.torch
        if self._model() is None:
            self._take(model)
        if self._model() is not model or self._why_off or not torch.is_grad_enabled():
            return False
        if self._first is not None:
            if self._first.has_gradients:
                self._first.drop()  # the next part of an accumulated batch
            else:
                self._drop("several forward passes come before one backward pass")
            return False
        if self._missing or not self._is_due or self._role() != "asked":
            return False
        try:
            self._look_for_obstacles(model)
            self._first = FirstTime(torch, model.module, (inputs, kwargs))
        except NotRepeatable as error:
            self._missing = str(error)
            return False
        self._collectives = self._issued()
        return True

    def computed(self, outputs: Any) -> None:
        if self._first is None:
            return
        if self._issued() != self._collectives:
            self._drop("the forward pass issues collectives")
            return
        self._first.computed(outputs)

    def _take(self, model: Any) -> None:
        state = self._state
        self._forget_the_past()
        self._model = weakref.ref(model)
        self._ids = {id(each) for each in model.parameters() if each.requires_grad}
        self._ranks = tuple(int(rank) for rank in state.c10d.get_process_group_ranks(model.process_group))
        if len(self._ranks) < 2:
            self._leave("one rank alone has no buddy")
            return
        if type(base_of(state.c10d._get_default_store())).__name__ != "TCPStore":
            self._leave("the ranks did not meet through a TCP store")
            return
        self._store = own_store(state.torch, state.c10d, 1_000_000 + state.formations)
        if self._store is None:
            self._leave("this torch cannot open a second connection to its store")
            return
        self._store.set_timeout(datetime.timedelta(seconds=WAIT_S))
        self._session.fingerprints.listen(self._ranks[0])

    def _look_for_obstacles(self, model: Any) -> None:
        torch, module = self._state.torch, model.module
        devices = {each.device for each in module.parameters()}
        if len(devices) != 1 or next(iter(devices)).type not in PLACES:
            raise NotRepeatable("the model is not on one processor or GPU")
        if any(type(each).__name__ == "OptimizedModule" for each in module.modules()):
            raise NotRepeatable("the model is compiled")
        if any(isinstance(each, torch.nn.SyncBatchNorm) for each in module.modules()):
            raise NotRepeatable("SyncBatchNorm exchanges numbers in the forward pass")
        if model._join_config.enable or getattr(model, "mixed_precision", None) is not None:
            raise NotRepeatable("DDP's join() or mixed precision is in use")
        if torch._C._len_torch_dispatch_stack():
            raise NotRepeatable("someone watches every operation")

    def _issued(self) -> int:
        state = self._state
        with state.lock:
            return sum(state.sequence(group) for group in list(state.c10d._world.pg_names))

    # --- around the optimizer's step

    @property
    def _is_due(self) -> bool:
        return (self._number + 1) % self._session.buddy_every == 0

    def _role(self) -> str:
        asked, buddy, witness = self._turn()
        mine = self._session.who.rank
        return {asked: "asked", buddy: "buddy", witness: "witness"}.get(mine, "")

    def _turn(self) -> tuple[int, int, int | None]:
        """Whose input is computed again, by whom, and who is asked where they differ."""
        turn, size = (self._number + 1) // self._session.buddy_every - 1, len(self._ranks)
        asked = turn % size
        others = [self._ranks[(asked + 1 + place) % size] for place in range(size - 1)]
        buddy = (turn // size) % len(others)
        return self._ranks[asked], others[buddy], others[(buddy + 1) % len(others)] if size > 2 else None

    def before(self, optimizer: Any) -> None:
        model = self._model()
        if model is None:
            self._without += 1
            if self._without == max(2, self._session.buddy_every):
                why = "no model is in DistributedDataParallel"
                self._session.uncovered(PART, why)
                self._session.say(f"no buddy steps: {why}")
        if model is None or not self._holds(optimizer) or self._state.closed:
            return
        if self._is_due and self._store is not None and (role := self._role()):
            self._session.fingerprints.stop_if_strict()
            try:
                {"asked": self._ask, "buddy": self._answer, "witness": self._bear_witness}[role](model)
            except Exception as error:
                for what in ANSWERS[role]:
                    with contextlib.suppress(Exception):  # the store may be gone
                        self._send(what, b"")
                kind = "" if isinstance(error, NotRepeatable) else f"{type(error).__name__}: "
                self._leave(f"{kind}{str(error)[:200]}")
        self._number += 1

    def after(self, optimizer: Any) -> None:
        """What was computed inside the optimizer's step, by a closure, began from other weights."""
        if self._model() is not None and self._holds(optimizer):
            self._drop("")
            self._missing = ""

    def _holds(self, optimizer: Any) -> bool:
        return any(id(each) in self._ids for each in optimizer.param_groups[0]["params"][:1])

    def _drop(self, why: str) -> None:
        self._missing = why
        if self._first is not None:
            self._first.drop()
            self._first = None

    def _leave(self, why: str) -> None:
        """Never again on this rank. It still answers: no other one must wait for it."""
        if not self._why_off:
            self._why_off = why
            self._session.uncovered(f"{PART} of this rank", why)
            self._session.say(f"no buddy steps on this rank: {why}")

    # --- the rank whose input it is

    def _ask(self, model: Any) -> None:
        first, self._first = self._first, None
        if first is None:
            raise NotRepeatable(self._why_off or self._missing or "the model was not called before the step")
        given, mine = first.finish()
        asks = packed(self._state.torch, self._message(model, given, mine))
        if len(asks) > MOST_BYTES:
            raise NotRepeatable(f"the input has {len(asks) >> 20} MiB, and at most {MOST_BYTES >> 20} are sent")
        self._send("ask", asks)
        said = self._receive("said")
        if said == b"again":
            again = self._repeat(model, given)
            self._send("own", _written(again))
        elif said == b"same":
            self._agree()

    def _message(self, model: Any, given: Given, mine: list[Computed]) -> dict[str, Any]:
        return {**vars(given), "mine": _written(mine), "agreed": self._agreed_at, "kind": self._kind(model)}

    def _kind(self, model: Any) -> str:
        """What must be equal on both: the processor, and the weights, by their bits."""
        torch, parameters = self._state.torch, [each.detach() for each in model.module.parameters()]
        device, sums = parameters[0].device, Sums(torch)
        with torch.no_grad():
            bits = sums.both(torch.stack([sums.line(each) for each in parameters])).t().tolist()
        capability = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu
        name = capability if isinstance(capability, str) else capability.get_cpu_capability()
        return f"{name} {digest([number for each in bits for number in each])}"

    # --- its buddy

    def _answer(self, model: Any) -> None:
        self._forget(self._number - self._session.buddy_every, "said", "own", "witness")
        began = time.perf_counter()
        data = self._receive("ask")
        if not data or self._why_off:
            self._send("said", b"")
            return
        asked, given = self._given(model, data)
        theirs, kind, agreed_at = _read(asked["mine"]), asked["kind"], asked["agreed"]
        if kind != self._kind(model):
            self._send("said", b"")  # other weights: the fingerprints tell
            if kind.rpartition(" ")[0] != self._kind(model).rpartition(" ")[0]:
                self._leave("the ranks have processors of different kinds, which round differently")
            return
        mine = self._repeat(model, given)
        if not differing(theirs, mine, self._bands(mine)):
            self._send("said", b"same")
            self._forget(self._number, "ask")
            self._agree()
            self._price(time.perf_counter() - began)
            return
        self._send("said", b"again")
        again = self._repeat(model, given)
        theirs_again = _read(self._receive("own"))
        witness = _read(self._receive("witness")) if self._turn()[2] is not None else None
        self._forget(self._number, "ask")
        self._judge((theirs, theirs_again), (mine, again), witness, agreed_at)

    def _bear_witness(self, model: Any) -> None:
        if self._receive("said") != b"again":
            return
        _, given = self._given(model, self._receive("ask"))
        self._send("witness", _written(self._repeat(model, given)))

    def _given(self, model: Any, data: bytes) -> tuple[dict[str, Any], Given]:
        asked = unpacked(self._state.torch, data, next(model.module.parameters()).device)
        return asked, Given(**{name: asked[name] for name in Given.__dataclass_fields__})

    def _repeat(self, model: Any, given: Given) -> list[Computed]:
        self._room_for(model)
        return repeat(self._state.torch, model.module, given)

    def _room_for(self, model: Any) -> None:
        torch, parameters = self._state.torch, list(model.module.parameters())
        device = parameters[0].device
        if device.type != "cuda":
            return
        held = torch.cuda.memory_allocated(device)
        needed = torch.cuda.max_memory_allocated(device) - held + sum(each.nbytes for each in parameters)
        free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - held
        if needed > free:
            raise NotRepeatable(f"a second set of gradients needs {needed >> 20} MiB, and {free >> 20} MiB are free")

    # --- what it means

    def _agree(self) -> None:
        self._agreed += 1
        self._agreed_at = self._session.steps + 1

    def _bands(self, computed: list[Computed]) -> dict[str, float]:
        """How far repeats of each may lie from each other."""
        torch, model = self._state.torch, self._model()
        exact = torch.are_deterministic_algorithms_enabled() or next(model.parameters()).is_cpu
        least = 0.0 if exact else ROUNDED / WIDER
        return {each.name: max(least, self._noise.get(each.name, 0.0)) for each in computed}

    def _judge(self, asked: Any, buddy: Any, witness: list[Computed] | None, agreed_at: int | None) -> None:
        odd = who_is_odd(asked, buddy, witness, self._bands(buddy[0]))
        if odd is None or (self._noisy and self._noisy < LEARNED):
            self._learn((*asked, *buddy), odd)
            return
        if (not odd.again or witness is None) and self._agreed < BASELINE:
            self._unfaithful += 1
            if self._unfaithful > BASELINE:
                self._leave(f"a repeat gives other numbers in {buddy[0][odd.items[0]].name} from the start")
            return
        self._tell(odd, buddy[0], witness is not None, agreed_at)

    def _learn(self, repeats: Any, odd: WhoIsOdd | None) -> None:
        """How far repeats on one rank lie from each other."""
        if odd is not None and not self._noisy:
            return
        self._noisy += 1
        for one, other in (repeats[:2], repeats[2:]):
            for a, b in zip(one, other, strict=False):
                self._noise[a.name] = max(self._noise.get(a.name, 0.0), distance(a, b))

    def _tell(self, odd: WhoIsOdd, computed: list[Computed], witnessed: bool, agreed_at: int | None) -> None:
        self._findings += 1
        if self._findings > MOST_FINDINGS:
            return
        session, (asked, buddy, witness) = self._session, self._turn()
        taking_part = tuple(each for each in (asked, buddy, witness if witnessed else None) if each is not None)
        ranks = tuple(sorted(rank for rank, is_odd in ((asked, odd.asked), (buddy, odd.buddy)) if is_odd))
        since = {asked: agreed_at, buddy: self._agreed_at}
        agreed = min((since[rank] or 0 for rank in ranks), default=0) or None
        step, tensor = session.steps + 1, computed[odd.items[0]].name
        words = _words(ranks, tensor, len(odd.items) - 1, step, odd.again)
        others = tuple(sorted(set(taking_part) - set(ranks)))
        fields = {"ranks": ranks, "others": others, "tensor": tensor, "tensors": len(odd.items), "of": len(computed)}
        session.note("ComputedOdd", fields | {"step": step, "agreed": agreed, "again": odd.again}, words)
        session.say(words)
        session.flush()
        session.fingerprints.tell_all(self._ranks[0], agreed or 0, words)

    def _price(self, spent_s: float) -> None:
        self._done += 1
        if self._done != PRICED_AT:
            return
        every = self._session.buddy_every
        step_s = self._session.usual_step_s
        share = f", {spent_s / every / step_s:.1%} of the time" if step_s else ""
        self._session.say(f"a buddy step takes {spent_s * 1e3:.0f} ms, one step in {every}{share}")

    # --- messages

    def _key(self, what: str, number: int | None = None) -> str:
        return f"keepstep/buddy/{self._state.formations}/{self._number if number is None else number}/{what}"

    def _send(self, what: str, data: bytes) -> None:
        pieces = range(0, len(data), PIECE)
        for place, at in enumerate(pieces):
            self._store.set(f"{self._key(what)}/{place}", data[at : at + PIECE])
        self._store.set(self._key(what), str(len(pieces)))

    def _receive(self, what: str) -> bytes:
        key = self._key(what)
        longest = max(WAIT_S, WAIT_STEPS * (self._session.usual_step_s or 0.0))
        try:
            self._store.wait([key], datetime.timedelta(seconds=longest))
        except Exception as error:
            if "timeout" not in str(error).lower():
                raise
            raise NotRepeatable(f"another rank did not answer in {longest:.0f} s; do all ask for them?") from error
        return b"".join(self._store.get(f"{key}/{place}") for place in range(int(self._store.get(key))))

    def _forget(self, number: int, *what: str) -> None:
        """Nobody reads them any more."""
        for key in (self._key(each, number) for each in what):
            if self._store.check([key]):
                for place in range(int(self._store.get(key))):
                    self._store.delete_key(f"{key}/{place}")
                self._store.delete_key(key)


def _words(ranks: tuple[int, ...], tensor: str, more: int, step: int, again: bool) -> str:
    what = tensor + (f" and {count(more, 'other', 'others')}" if more else "")
    if len(ranks) > 1:
        return f"at step {step} {say_ranks(ranks)} computed different numbers from the same input in {what}"
    often = "twice" if again else "once, and the right ones when asked again"
    return f"at step {step} {say_ranks(ranks)} computed wrong numbers before the exchange, {often}: {what}"


def _written(computed: list[Computed]) -> bytes:
    return json.dumps([(each.name, each.digest, each.sums, each.size) for each in computed]).encode()


def _read(data: bytes) -> list[Computed]:
    return [Computed(name, bits, tuple(sums), size) for name, bits, sums, size in json.loads(data)]
