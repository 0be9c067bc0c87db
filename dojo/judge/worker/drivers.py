"""What is done with an attempt's objects over several steps: our own loops, which hold no expected value."""

from __future__ import annotations

import gc
import inspect
import io
import math
import operator
import sys
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from dojo.judge.protocol import Args, Kwargs, Message, floating_in
from dojo.judge.worker.arrays import in_arrays, in_arrays_drawing
from dojo.judge.worker.readings import instrumentation

MOVED = "a parameter lies elsewhere in memory: views of it keep the old values"

# Some methods first import the whole compiler, seconds of work, to be left alone by it: they are told that they are.
for _each in vars(torch.optim.Optimizer).values():
    if hasattr(_each, "__wrapped__"):
        setattr(_each.__wrapped__, "__dynamo_disable", _each.__wrapped__)


def optimise(
    make: Callable[..., Any],
    values: list[Tensor],
    groups: list[dict[str, Any]] | None,
    settings: dict[str, Any],
    steps: list[Message],
) -> Message:
    """Build an optimiser over leaves with these values, and take steps.

    A group is a dict of settings whose `params` are numbers of leaves; without groups the optimiser gets the leaves as
    `model.parameters()` gives them. A step is `grads`, one for each leaf or None, and `settings`, which are written
    into `param_groups` by group before it. What comes back is every leaf after each step, and what a step did that it
    may not.
    """
    leaves = [torch.nn.Parameter(value.clone()) for value in values]
    given: Any = iter(leaves)
    if groups is not None:
        given = [group | {"params": [leaves[number] for number in group["params"]]} for group in groups]
    optimiser = make(given, **settings)
    trace, seen = [], []
    for number, step in enumerate(steps, 1):
        for group, changed in zip(optimiser.param_groups, step.get("settings", ()), strict=False):
            group.update(changed)
        kept = [None if grad is None else grad.clone() for grad in step["grads"]]
        places = [leaf.data_ptr() for leaf in leaves]
        for leaf, grad in zip(leaves, step["grads"], strict=True):
            leaf.grad = grad
        optimiser.step()
        facts = _misdeeds(optimiser, leaves, step["grads"], kept)
        facts += [MOVED] if places != [leaf.data_ptr() for leaf in leaves] else []
        seen += [f"step {number}: {fact}" for fact in facts]
        trace.append([leaf.detach().clone() for leaf in leaves])
        if [(leaf.dtype, leaf.shape) for leaf in leaves] != [(value.dtype, value.shape) for value in values]:
            break  # the next gradient would not fit it
    optimiser.zero_grad()
    if any(leaf.grad is not None for leaf in leaves):
        seen.append("zero_grad() leaves a .grad that is not None")
    return {"value": trace, "seen": seen}


def _misdeeds(
    optimiser: Any, leaves: list[torch.nn.Parameter], grads: list[Tensor | None], kept: list[Tensor | None]
) -> list[str]:
    """What a step did to leaves and gradients besides writing new values."""
    found = []
    held = {id(each) for group in optimiser.param_groups for each in group["params"]}
    if held != {id(leaf) for leaf in leaves}:
        found.append("param_groups no longer hold the tensors that the optimiser was given")
    if any(leaf.grad_fn is not None or not leaf.is_leaf or not leaf.requires_grad for leaf in leaves):
        found.append("a parameter is no longer a leaf that takes gradients")
    for leaf, grad, before in zip(leaves, grads, kept, strict=True):
        if leaf.grad is not grad:
            found.append("a .grad was replaced")
        elif grad is not None and before is not None and not torch.equal(grad, before):
            found.append("a .grad was changed")
    return sorted(set(found))


def next_token_logprobs(model: Sequence[Tensor], prefix: Sequence[int]) -> Tensor:
    """What a small model says of the token after this prefix: log-probabilities, float64.

    `model` is (embedding (vocab, d), recurrence (d, d), output (d, vocab)): the state goes through tanh, token by
    token, so that the answer hangs on all of them. A logit below -1e6 is -inf; where all are, so is every score.
    """
    embedding, recurrence, output = (each.double() for each in model)
    state = embedding.new_zeros(embedding.shape[1])
    for token in prefix:
        state = torch.tanh(state @ recurrence + embedding[token])
    logits = state @ output
    banned = logits < -1e6
    return torch.log_softmax(logits.masked_fill(banned & ~banned.all(), -math.inf), -1).masked_fill(banned, -math.inf)


def scored(function: Callable[..., Any], model: list[Tensor], args: list[Any], settings: dict[str, Any]) -> Message:
    """Call a search with `step(prefixes)`, which scores the rows of an int64 tensor by a model one by one.

    Row by row, so that no bit of a score hangs on what else is in the batch. What comes back is the answer, the shapes
    that `step` was called with, and the arguments as they are then.
    """
    calls: list[tuple[int, ...]] = []

    def step(prefixes: Tensor) -> Tensor:
        if not isinstance(prefixes, Tensor) or prefixes.dtype is not torch.int64 or prefixes.dim() != 2:
            got = f"{prefixes.dtype} {tuple(prefixes.shape)}" if isinstance(prefixes, Tensor) else repr(prefixes)[:80]
            raise TypeError(f"step takes an int64 tensor (rows, length), not {got}")
        calls.append(tuple(prefixes.shape))
        rows = [next_token_logprobs(model, row) for row in prefixes.tolist()]
        return torch.stack(rows) if rows else torch.empty(0, model[0].shape[0], dtype=torch.float64)

    with torch.no_grad():
        value = function(step, *args, **settings)
    return {"value": value, "calls": calls, "args": args}


class CausalModel:
    """A language model of one attention layer, float64, with a KV cache: `model(ids, positions, mask, cache)`.

    `weights` are embedding (vocab, d), table of positions (length, d), queries, keys and values (3, d, d), and output
    (d, vocab). It gives logits (batch, new, vocab) and the cache, changed in place or as a new object. It refuses what
    does not fit, and notes each call: `positions`, `mask`, and whether autograd is on.
    """

    def __init__(self, weights: Sequence[Tensor], in_place: bool = True) -> None:
        self.embedding, self.table, self.attention, self.output = (each.double().requires_grad_() for each in weights)
        self.in_place = in_place
        self.calls: list[Message] = []

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        if cache is not None and not isinstance(cache, _Cache):
            raise TypeError(f"the cache is None at first, then as the model returned it, not a {type(cache).__name__}")
        past = 0 if cache is None else cache.kept.shape[2]
        batch, new = _shape_of("ids", ids, torch.int64)
        _shape_of("positions", positions, torch.int64, (batch, new))
        _shape_of("mask", mask, torch.bool, (batch, past + new))
        if not bool(((positions >= 0) & (positions < len(self.table))).all()):
            raise IndexError(f"positions are in [0, {len(self.table)}), not {positions.cpu().tolist()}")
        told = {"positions": positions.cpu().tolist(), "mask": mask.cpu().tolist()}
        self.calls.append(told | {"grad": torch.is_grad_enabled()})
        x = self.embedding[ids] + self.table[positions]
        q, *pair = (x @ each for each in self.attention)
        kept = torch.stack(pair) if cache is None else torch.cat([cache.kept, torch.stack(pair)], 2)
        if cache is None or not self.in_place:
            cache = _Cache()
        cache.kept = kept
        causal = torch.ones(new, past + new, dtype=torch.bool, device=mask.device).tril(past)
        scores = (q @ kept[0].mT).masked_fill(~(causal & mask[:, None]), torch.finfo(torch.float64).min)
        return torch.tanh(x + scores.softmax(-1) @ kept[1]) @ self.output, cache


class _Cache:
    kept: Tensor  # keys and values (2, batch, past, d)


def _shape_of(name: str, given: Any, dtype: torch.dtype, shape: tuple[int, int] | None = None) -> tuple[int, int]:
    """The shape of what a model is called with. Raises TypeError or ValueError where it is another one."""
    if not isinstance(given, Tensor) or given.dtype is not dtype or given.dim() != 2:
        got = f"{given.dtype} {tuple(given.shape)}" if isinstance(given, Tensor) else f"a {type(given).__name__}"
        raise TypeError(f"{name}: the model takes a {dtype} tensor of two dimensions, not {got}")
    if shape is not None and given.shape != shape:
        raise ValueError(f"{name}: the model takes the shape {shape} here, not {tuple(given.shape)}")
    return given.shape[0], given.shape[1]


def decoded(
    function: Callable[..., Any], model: list[Tensor], args: list[Any], settings: dict[str, Any], in_place: bool = True
) -> Message:
    """Call what decodes, with a model of these weights.

    What comes back is the answer, the calls of the model, and the arguments as they are then.
    """
    made = CausalModel(model, in_place)
    value = function(made, *args, **settings)
    return {"value": value, "calls": made.calls, "args": args}


class SmallModel(torch.nn.Module):
    """A causal language model, `model(ids (batch, seq))`, that gives logits (batch, seq, vocab) of a dtype.

    `weights` are embedding (vocab, d), recurrence (d, d), output (d, vocab), and what is added to logits (vocab): the
    state goes through tanh, token by token, in float64. It refuses what does not fit, and notes of each call its
    `shape`, and whether autograd is on.
    """

    def __init__(self, weights: Sequence[Tensor], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(each.double()) for each in weights])
        self.dtype = dtype
        self.calls: list[Message] = []

    def forward(self, ids: Tensor) -> Tensor:
        shape = _shape_of("ids", ids, torch.int64)
        embedding, recurrence, output, added = self.weights
        self.calls.append({"shape": [*shape], "grad": torch.is_grad_enabled()})
        state, states = embedding.new_zeros(shape[0], embedding.shape[1]), []
        for token in ids.unbind(1):
            state = torch.tanh(state @ recurrence + embedding[token])
            states.append(state)
        logits: Tensor = torch.stack(states, 1) @ output + added
        return logits.to(self.dtype)


def modelled(
    function: Callable[..., Any],
    models: list[list[Tensor]],
    args: list[Any],
    settings: dict[str, Any],
    dtype: torch.dtype = torch.float32,
) -> Message:
    """Call a function of one small model or of several, each of its weights, and then of other arguments.

    What comes back is the answer, the calls of each model, and the other arguments as they are then.
    """
    made = [SmallModel(weights, dtype) for weights in models]
    value = function(*made, *args, **settings)
    return {"value": value, "calls": [each.calls for each in made], "given": [*args, *settings.values()]}


METHODS = ("exp", "log", "tanh", "relu")
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": operator.pow}


def program(make: Callable[[float], Any], instructions: list[list[Any]], told: list[int] | None = None) -> Message:
    """Run a program over objects of a class: each line makes one more, goes back from one, or is done again and again.

        ["leaf", 2.0]  ["+", 0, 1]  ["*", 0, ["number", 3.0]]  ["neg", 1]  ["tanh", 4]  ["backward", 5]
        ["set", 0, ["number", 0.0]]  ["again", 1000, [["+", -1, 0], ["exp", -1]]]

    An operand is the number of an object, in the order in which they were made, -1 for the latest, or a number. What
    comes back is `data` and `grad` at the end, of all objects or of those to be told: numbers, or what else it is.
    """
    made: list[Any] = []

    def operand(given: Any) -> Any:
        return given[1] if isinstance(given, (list, tuple)) else made[given]

    def run(lines: list[list[Any]]) -> None:
        for word, *operands in lines:
            if word == "leaf":
                made.append(make(*operands))
            elif word == "backward":
                made[operands[0]].backward()
            elif word == "set":
                made[operands[0]].grad = operand(operands[1])
            elif word == "again":
                for _ in range(operands[0]):
                    run(operands[1])
            elif word == "neg":
                made.append(-made[operands[0]])
            elif word in METHODS:
                made.append(getattr(made[operands[0]], word)())
            else:
                made.append(OPERATORS[word](*map(operand, operands)))

    run(instructions)
    shown = [made[number] for number in (range(len(made)) if told is None else told)]
    found = {name: [_number(getattr(each, name)) for each in shown] for name in ("data", "grad")}
    while made:  # from the end: a long chain that goes at once is a recursion in Python's own memory
        made.pop()
    return found


def _number(value: Any) -> Any:
    return value if type(value) in (int, float) else f"a {type(value).__name__}"


def _plain(optimiser: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """The same optimiser, whose steps leave the compiler alone too."""
    step = torch.no_grad()(inspect.unwrap(optimiser.step))
    return type(optimiser.__name__, (optimiser,), {"step": step})


PLAIN = {each.__name__: _plain(each) for each in (torch.optim.SGD, torch.optim.AdamW)}


def scaled(
    train_step: Callable[..., Any],
    scaler: Any,
    optimiser: str,
    values: list[Tensor],
    groups: list[dict[str, Any]],
    settings: dict[str, Any],
    steps: list[Message],
    max_norm: float = math.inf,
) -> Message:
    """Train leaves under a loss scaler by one of torch's optimisers, on losses in float16 that have these gradients.

    A group is as in `optimise`. A step is `losses`, each a list of gradients, one for each leaf or None, and `words`,
    which are done in turn: "backward" from the next loss, scaled, "clip", "train_step" on the next loss, or what the
    scaler does with the optimiser. What comes back is, after each step, every leaf and its `.grad`, and the scale.
    """
    leaves = [torch.nn.Parameter(value.clone()) for value in values]
    given = [group | {"params": [leaves[number] for number in group["params"]]} for group in groups]
    made = PLAIN[optimiser](given, **settings)
    found: Message = {"values": [], "grads": [], "scales": []}
    for step in steps:
        losses = ([*zip(leaves, grads, strict=True)] for grads in step["losses"])
        for word in step["words"]:
            if word in ("backward", "train_step"):
                pairs = [(leaf, grad) for leaf, grad in next(losses) if grad is not None]
                loss = torch.stack([(leaf.half().float() * grad).sum() for leaf, grad in pairs]).sum()
            if word == "backward":
                scaler.scale(loss).backward()
            elif word == "train_step":
                train_step(loss, made, scaler, max_norm)
            elif word == "clip":
                torch.nn.utils.clip_grad_norm_(leaves, max_norm)
            elif word == "update":
                scaler.update()
            else:
                getattr(scaler, word)(made)
        found["values"].append([leaf.detach().clone() for leaf in leaves])
        found["grads"].append([None if leaf.grad is None else leaf.grad.clone() for leaf in leaves])
        found["scales"].append(scaler.get_scale())
        made.zero_grad()
    return found


class NextToken(torch.nn.Module):
    """Logits (rows, seq, vocab) for the next token by the last one alone, of parameters with these values.

    Those named `embedding`, `scale`, `head` and `bias` make the logits. Another takes no part, and one named `frozen`
    no gradients. A `fault` is that of the next forward: the "loss" of it is nan, or the "gradient" alone infinite.
    """

    embedding: torch.nn.Parameter
    scale: torch.nn.Parameter
    head: torch.nn.Parameter
    bias: torch.nn.Parameter

    def __init__(self, values: dict[str, Tensor], dropout: float = 0.0) -> None:
        super().__init__()
        for name, value in values.items():
            self.register_parameter(name, torch.nn.Parameter(value.clone(), requires_grad=name != "frozen"))
        self.dropout, self.fault = torch.nn.Dropout(dropout), ""

    def forward(self, ids: Tensor) -> Tensor:
        fault, self.fault = self.fault, ""
        state = torch.nn.functional.embedding(ids, self.embedding)
        if fault:
            state = state * math.nan if fault == "loss" else state * 1
        if fault == "gradient":
            state.register_hook(lambda grad: grad * math.inf)
        logits: Tensor = self.dropout(torch.tanh(state * self.scale)) @ self.head.mT + self.bias
        return logits


@torch.random.fork_rng(devices=[])
def trained(make: Callable[..., Any], script: list[list[Any]]) -> Message:
    """Make trainers of models of ours, each by a line of a script, and do with the latest what further lines say.

        ["make", values, settings, dropout]  ["step", batch, settings, fault]  ["read", name]  ["seed", 3]  ["eval"]
        ["save"]  ["load"]  ["file"]

    A fault is as in `NextToken`, or "". `save` keeps a state, `load` loads it, and `file` writes it and reads it. What
    comes back is, in turn, what each step gave, and every parameter after it, and what was read.
    """
    found: list[Any] = []
    model: NextToken | None = None
    trainer: Any = None
    state: Any = None
    for word, *given in script:
        if word == "make":
            values, settings, dropout = given
            model = NextToken(values, dropout)
            trainer = make(model, **settings)
        elif word == "step":
            assert model is not None
            batch, settings, model.fault = given
            loss = trainer.step(batch, **settings)
            found.append({"loss": loss, "values": {k: v.detach().clone() for k, v in model.named_parameters()}})
        elif word == "read":
            found.append(getattr(trainer, given[0]))
        elif word == "seed":
            torch.manual_seed(given[0])
        elif word == "eval":
            assert model is not None
            model.eval()
        elif word == "save":
            state = trainer.state_dict()
        elif word == "load":
            trainer.load_state_dict(state)
        else:
            written = io.BytesIO()
            torch.save(state, written)
            state = torch.load(io.BytesIO(written.getvalue()), weights_only=True)
    return {"value": found}


@torch.random.fork_rng(devices=[])
def checkpointed(
    checkpoint: Callable[..., Any],
    inputs: list[Any],
    takes: list[int],
    blocks: list[list[Tensor]],
    cotangent: Tensor,
    p: float = 0.0,
    seed: int = 0,
    nested: bool = False,
    grad: bool = True,
) -> Message:
    """Send inputs through blocks by `checkpoint(block, ...)`, and go backward from a loss in which the result is twice.

    A block adds its floating inputs, multiplies by the others, each in its place, and goes through its matrices with
    tanh and a dropout of p. Where `nested`, it checkpoints every two of them itself. The inputs whose numbers `takes`
    names take gradients; the first block gets them from an operation before it, and so does the loss. What comes back:
    the result, the gradients of inputs and matrices, how often each block ran until the backward and until the end, the
    bytes held and the random numbers drawn between the two, those drawn at the end, and whether the result hangs on a
    graph.
    """
    torch.manual_seed(seed)
    given = [each.clone() if isinstance(each, Tensor) else each for each in inputs]
    leaves = [given[number].requires_grad_() for number in takes]
    blocks = [[torch.nn.Parameter(each.clone()) for each in block] for block in blocks]
    runs = [[0, 0] for _ in blocks]

    def through(weights: list[Tensor], *given: Any) -> Any:
        state = sum(place * each for place, each in enumerate(given, 1) if floating_in(each))
        for place, factor in enumerate(given, 1):
            if factor is not None and not floating_in(factor):
                state = state * factor + place
        for weight in weights:
            state = torch.tanh(state @ weight)
            if p > 0:
                state = state * (torch.rand(state.shape) >= p).to(state.device) / (1 - p)  # the CPU's generator
        return state

    def block(number: int) -> Callable[..., Any]:
        def function(*given: Any) -> Any:
            runs[number][1] += 1
            weights = blocks[number]
            if not nested:
                return through(weights, *given)
            for start in range(0, len(weights), 2):
                given = (checkpoint(partial(through, weights[start : start + 2]), *given),)
            return given[0]

        return function

    with instrumentation.counting() as count, torch.set_grad_enabled(grad):
        given = [each.sin() if grad and number in takes else each for number, each in enumerate(given)]
        before = count.mode.alive
        value = checkpoint(block(0), *given)
        for number in range(1, len(blocks)):
            value = checkpoint(block(number), value)
        gc.collect(1)  # cycles that were made just now: of all, it would take a tenth of a second
        held = count.mode.alive - before
        for each in runs:
            each[0] = each[1]
        between = torch.rand(3)
        if grad:
            ((value * value + given[takes[0]]) * cotangent).sum().backward()
    return {
        "value": value,
        "gradients": [each.grad for each in (*leaves, *chain(*blocks))],
        "runs": runs,
        "held": held,
        "drawn": torch.cat([between, torch.rand(3)]),
        "graph": isinstance(value, Tensor) and value.requires_grad,
    }


def left_of(made: Callable[..., Any], args: Args) -> Message:
    """The arguments of a call, once it has been made."""
    made(*args)
    return {"value": args}


def under(made: Callable[..., Any], default: torch.dtype, args: Args, kwargs: Kwargs) -> Message:
    """A call while the default dtype is another one, as it is while a model in half precision is built."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        return {"value": made(*args, **kwargs)}
    finally:
        torch.set_default_dtype(before)


def warned(made: Callable[..., Any], args: Args, kwargs: Kwargs) -> Message:
    """What a call warns of at run time, as NumPy does of overflow."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made(*args, **kwargs)
    return {"value": [str(each.message) for each in seen if issubclass(each.category, RuntimeWarning)]}


def steps(made: Callable[..., Any], args: Args, kwargs: Kwargs) -> Message:
    """How many lines of Python a call runs, those of libraries too: a loop over rows shows whatever computes them."""
    count = 0

    def note(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        made(*args, **kwargs)
    finally:
        sys.settrace(before)
    return {"value": count}


def overheard(made: Callable[..., Any], args: Args, kwargs: Kwargs) -> Message:
    """A call with autograd on, and in which modes modules are called in it: training, and whether autograd is on."""
    modes = set[tuple[bool, bool]]()
    note = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, _: modes.add((module.training, torch.is_grad_enabled()))
    )
    try:
        with torch.enable_grad():
            return {"value": made(*args, **kwargs), "modes": sorted(modes)}
    finally:
        note.remove()


def left_in_grad(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that works on `.grad` of its parameters, as one of (value, gradient) that gives the gradients.

    They are dense, as autograd leaves them; the values are those that were given, and the parameters come once.
    """

    def called(pairs: list[tuple[Tensor, Tensor | None]], *args: Any, **kwargs: Any) -> tuple[list[Tensor | None]]:
        leaves = [torch.nn.Parameter(value) for value, _ in pairs]
        for leaf, (_, grad) in zip(leaves, pairs, strict=True):
            leaf.grad = None if grad is None else grad.clone()
        with torch.enable_grad():
            function(iter(leaves), *args, **kwargs)
        return ([leaf.grad for leaf in leaves],)

    return called


def with_grad(function: Callable[..., Any]) -> Callable[..., Any]:
    """What trains a model and asks autograd for gradients of its own, called with autograd on."""
    return torch.enable_grad()(function)


def a_dict(made: Callable[..., Any]) -> Callable[..., Any]:
    """What makes a dict, whatever the attempt defines: state that its caller owns and it fills, such as a cache."""
    return dict


def held(made: Any) -> Message:
    """How many bytes of tensors an object holds, in containers and attributes too; each storage once, and whole."""
    storages: dict[int, int] = {}
    seen: dict[int, Any] = {}
    rest = [made]
    while rest:
        each = rest.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, Tensor):
            inner = getattr(each, "elem", each)  # the make-believe device has no memory of its own
            storages[inner.untyped_storage().data_ptr()] = inner.untyped_storage().nbytes()
        elif isinstance(each, dict):
            rest += each.values()
        elif isinstance(each, (list, tuple, set, deque)):
            rest += each
        elif hasattr(each, "__dict__") and not isinstance(each, type):
            rest += vars(each).values()
    return {"value": sum(storages.values())}


def beside_its_input(module: Callable[..., Any]) -> Callable[..., Any]:
    """A residual branch: the result and what it was made of."""
    return lambda x: x + module(x)


ADAPTERS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (left_in_grad, with_grad, in_arrays, a_dict, in_arrays_drawing, beside_its_input)
}
DRIVERS: tuple[Callable[..., Message], ...] = (
    optimise, scaled, checkpointed, scored, decoded, program, under, left_of, warned, steps, held, modelled,
    trained, overheard,
)  # fmt: skip
