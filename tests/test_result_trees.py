"""What contracts say of calls that are more than one tensor in and one tensor out, on a made-up kata.

Several results, lists of tensors, constants, frozen parameters, buffers, methods of kept objects and an optimiser: each
with right attempts in several forms and with wrong ones, which end in their sentence.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from dojo.content import catalog
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge.fork_server import ForkServer
from dojo.verdict.types import Verdict
from tests.conftest import SEED, failures, told

MASTER = '''\
# ---
# jupyter:
#   dojo:
#     title: Made up
#     level: 1
#     minutes: 5
# ---

# %% [markdown]
# # Made up
#
# **Write** eight things.

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
def best(
    x: Float[Tensor, "batch n"], prior: Float[Tensor, "batch n"]
) -> tuple[Float[Tensor, "batch"], Int[Tensor, "batch"]]:
    """The largest of x + prior in each row, and where it stands; the prior is constant."""
    ### BEGIN SOLUTION
    found = (x + prior.detach()).max(-1)
    return found.values, found.indices
    ### END SOLUTION


def doubled(grads: list[Float[Tensor, "..."] | None]) -> tuple[list[Float[Tensor, "..."] | None], Float[Tensor, ""]]:
    """Each tensor times two, None stays None; and the sum of all."""
    ### BEGIN SOLUTION
    sums = [g.sum() for g in grads if g is not None]
    return [None if g is None else 2 * g for g in grads], sum(sums)
    ### END SOLUTION


def place(x: Float[Tensor, "batch n"]) -> Int[Tensor, "batch"]:
    """Where the largest stands."""
    ### BEGIN SOLUTION
    return x.argmax(-1)
    ### END SOLUTION


def ramp(n: int, *, step: float, start: float = 0.0) -> tuple[Float[Tensor, "n"], float]:
    """n steps from a start, and how far they go; the step and the start have no position."""
    ### BEGIN SOLUTION
    return start + step * torch.arange(n, dtype=torch.float32), step * n
    ### END SOLUTION


def slope(x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
    """The derivative of x squared, by formula."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


def weighed(x: Float[Tensor, "batch n"], lse: Float[Tensor, "batch"]) -> Float[Tensor, "batch n"]:
    """exp(x - lse), in float32; lse is float32 where x is in half precision."""
    ### BEGIN SOLUTION
    return (x.to(lse.dtype) - lse[:, None]).exp().to(x.dtype)
    ### END SOLUTION


class Shifted(nn.Module):
    """x + base + shift, where `base` is frozen."""

    def __init__(self, n: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.base = nn.Parameter(torch.zeros(n, device=device, dtype=dtype), requires_grad=False)
        self.shift = nn.Parameter(torch.zeros(n, device=device, dtype=dtype))
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
        """The sum of the three."""
        ### BEGIN SOLUTION
        return x + self.base + self.shift
        ### END SOLUTION


class Offset(nn.Module):
    """x + offset + shift, where `offset` is a buffer; training then adds the mean of x to it."""

    def __init__(self, n: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.register_buffer("offset", torch.zeros(n, device=device, dtype=dtype))
        self.shift = nn.Parameter(torch.zeros(n, device=device, dtype=dtype))
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
        """The sum of the three."""
        ### BEGIN SOLUTION
        result = x + self.offset + self.shift
        if self.training:
            self.offset += x.detach().mean(0)
        return result
        ### END SOLUTION


class Store:
    """Rows, in the order in which they came."""

    def __init__(self, width: int) -> None:
        ### BEGIN SOLUTION
        self.rows = torch.zeros(0, width)
        ### END SOLUTION

    def append(self, rows: Float[Tensor, "new width"]) -> Float[Tensor, "all width"]:
        """All rows so far."""
        ### BEGIN SOLUTION
        self.rows = torch.cat([self.rows, rows])
        return self.rows
        ### END SOLUTION

    def join(self, other: "Store") -> Float[Tensor, "all width"]:
        """All rows, those of another store behind."""
        ### BEGIN SOLUTION
        return self.append(other.rows)
        ### END SOLUTION


class Descent(torch.optim.Optimizer):
    """p - lr g."""

    def __init__(self, params: list, lr: float = 0.1) -> None:
        ### BEGIN SOLUTION
        super().__init__(params, {"lr": lr})
        ### END SOLUTION

    @torch.no_grad()
    def step(self) -> None:
        """One step."""
        ### BEGIN SOLUTION
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(group["lr"] * p.grad)
        ### END SOLUTION
'''

GRADER = """\
import torch

from dojo.contracts import (
    AUTOGRAD, Attempt, Ban, Call, Callee, Contract, Draw, GeneratorContract, ModuleContract, core, fail, match
)


def largest(init, params, x, prior):
    found = (x + prior.detach()).sort(-1, descending=True)
    return found.values[..., 0], found.indices[..., 0]


def gathered(init, params, x, prior):
    where = (x + prior).argmax(-1)
    return (x + prior.detach()).gather(-1, where[..., None])[..., 0], where


def both(init, params, grads):
    return [g if g is None else g + g for g in grads], torch.cat([g.flatten() for g in grads if g is not None]).sum()


def placed(init, params, x):
    return x.sort(-1).indices[..., -1]


def weighing(init, params, x, lse):
    return (x.to(lse.dtype) - lse[:, None]).exp().to(x.dtype)


def sloping(init, params, x):
    return x + x


def shifted(init, params, x):
    return x + (params["base"] + params["shift"])


def offset(init, params, x):
    return x + (params["offset"] + params["shift"])


class TestBest(Contract):
    name = "best"
    oracle, variants = largest, (largest, gathered)
    results = ("values", "indices")
    axes = {"values": "batch", "indices": "batch"}
    constants = ("prior",)
    cases = {"small": {}, "one_row": {"batch": 1}}
    timed = {"batch": 512, "n": 512}
    time_limit = 40.0

    @classmethod
    def call(cls, d: Draw, batch: int = 3, n: int = 5) -> Call:
        return Call({"x": d.normal(batch, n), "prior": d.normal(batch, n)})


class TestDoubled(Contract):
    name = "doubled"
    oracle, variants = both, (both,)
    results = ("twice", "total")
    cases = {"with_none": {}}
    timed = {"n": 100_000}
    time_limit = 40.0
    off = {"test_each_call_stands_alone": "a result may be an input"}

    @classmethod
    def call(cls, d: Draw, n: int = 3) -> Call:
        return Call({"grads": [d.normal(n, 2), None, d.normal(n)]})


class TestPlace(Contract):
    name = "place"
    oracle = placed
    variants = (placed,)
    differentiable = False
    half = ()
    off = {"test_half_precision_is_computed_in_float32": "float32 and float64 alone"}
    ban = Ban("topk")
    cases = {"small": {}}
    timed = {"batch": 512, "n": 512}
    time_limit = 40.0

    @classmethod
    def call(cls, d: Draw, batch: int = 3, n: int = 5) -> Call:
        return Call({"x": d.normal(batch, n)})


class TestRamp(GeneratorContract):
    name = "ramp"
    results = ("steps", "length")
    oracle = staticmethod(lambda n, step, start=0.0: ([start + step * i for i in range(n)], float(step * n)))
    claims = {"steps are even": [(3, 0.5), (4, 0.3, 1.0)]}
    timed = (2000, 0.5)


class TestSlope(Contract):
    name = "slope"
    oracle, variants = sloping, (sloping,)
    differentiable = False
    ban = Ban("topk") | AUTOGRAD
    cases = {"small": {}}
    timed = {"batch": 512, "n": 512}
    time_limit = 40.0

    @classmethod
    def call(cls, d: Draw, batch: int = 3, n: int = 5) -> Call:
        return Call({"x": d.normal(batch, n)})


class TestWeighed(Contract):
    name = "weighed"
    oracle, variants = weighing, (weighing,)
    differentiable = False
    cases = {"small": {}}
    timed = {"batch": 512, "n": 512}
    time_limit = 40.0

    @classmethod
    def call(cls, d: Draw, batch: int = 3, n: int = 5) -> Call:
        x = 30 + d.normal(batch, n)
        return Call({"x": x, "lse": x.logsumexp(-1)}, wide=("lse",))


class TestShifted(ModuleContract):
    name = "Shifted"
    oracle, variants = shifted, (shifted,)
    constants = ("base",)
    cases = {"small": {}}
    timed = {"batch": 512, "n": 512}
    time_limit = 40.0

    @classmethod
    def call(cls, d: Draw, batch: int = 3, n: int = 5) -> Call:
        init = {"n": n}
        return Call({"x": d.normal(batch, n)}, init, cls.params(d, init))


class TestOffset(ModuleContract):
    name = "Offset"
    oracle, variants = offset, (offset,)
    buffers = ("offset",)
    cases = {"small": {}}
    timed = {"batch": 512, "n": 512}
    time_limit = 40.0

    @classmethod
    def call(cls, d: Draw, batch: int = 3, n: int = 5) -> Call:
        init = {"n": n}
        return Call({"x": d.normal(batch, n)}, init, cls.params(d, init) | {"offset": d.normal(n)})

    @core
    def test_training_adds_the_mean_and_keeps_no_graph(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw)
        module = self.ready(attempt, call).train()
        module.request((call.inputs["x"].requires_grad_(),), {}, grad=True)
        found = module.describe()["buffers"]["offset"]
        if found.requires_grad:
            fail("the offset has no graph")
        exact = call.params["offset"].double() + call.inputs["x"].detach().double().mean(0)
        match(found, exact, 1e-5 + 0 * exact, "training adds the mean to the offset", "n")


class TestStore:
    @core
    def test_rows_come_in_their_order(self, attempt: Attempt, draw: Draw) -> None:
        store = Callee(attempt, attempt.Store.keep(2))
        first, second = draw.normal(3, 2), draw.normal(1, 2)
        given = store.stage(first)
        given.go(method="append")
        given.rescale(2.0)
        rows = store.method("append", second)
        match(rows, torch.cat([first, second]), None, "rows come in order, as they were", "all width")

    @core
    def test_another_store_may_be_joined(self, attempt: Attempt, draw: Draw) -> None:
        store, other = (Callee(attempt, attempt.Store.keep(2)) for _ in range(2))
        rows = draw.normal(3, 2)
        other.method("append", rows)
        staged = store.stage(other.target)
        match(staged.fetch(staged.go(method="join")), rows, None, "rows of another store are joined", "all width")


class TestDescent:
    @core
    def test_a_step_subtracts_lr_times_the_gradient(self, attempt: Attempt, draw: Draw) -> None:
        values, grads = [draw.normal(2, 3), draw.normal(4)], [draw.normal(3, 2).mT, None]
        steps = [{"grads": grads}, {"grads": grads, "settings": [{"lr": 0.5}, {}]}]
        groups = [{"params": [0], "lr": 0.2}, {"params": [1]}]
        asked = {"values": values, "groups": groups, "settings": {}, "steps": steps}
        answer = attempt.Descent.ask(do="optimise", target="Descent", **asked)
        if answer["seen"]:
            fail("a step writes parameters in place and leaves gradients alone", *answer["seen"])
        first, second = answer["value"]
        exact = values[0].double() - 0.2 * grads[0].double()
        match(first[0], exact, 1e-6 * exact.abs() + 1e-6, "p - lr g", "rows columns")
        match(second[0], exact - 0.5 * grads[0].double(), 1e-6 + 0 * exact, "lr is read anew", "rows columns")
        match(second[1], values[1].double(), None, "a tensor without a gradient stays", "n")
"""

ZEROS = "torch.zeros(n, device=device, dtype=dtype)"
ADDED = "self.offset += x.detach().mean(0)"
IMPORTS = "import torch\nfrom typing import NamedTuple\nfrom torch import nn\n"
SLOPE = """\
def by_grad(x, grad):
    with torch.enable_grad():
        leaf = x.clone().requires_grad_()
        return grad((leaf * leaf).sum(), leaf)[0]
"""


def offset(old: str, new: str) -> str:
    """The master's `Offset` with one change."""
    text = "class Offset" + MASTER.partition("class Offset")[2].partition("\n\n\n")[0]
    assert text.count(old) == 1
    return text.replace(old, new)


RIGHT = {
    "no half precision where it is not graded": """
        def place(x):
            if x.dtype in (torch.float16, torch.bfloat16):
                raise TypeError(x.dtype)
            return x.argmax(-1)
    """,
    "a named tuple": """
        class Found(NamedTuple):
            values: torch.Tensor
            indices: torch.Tensor
        def best(x, prior):
            where = (x + prior).argmax(-1)
            return Found((x + prior.detach()).gather(-1, where.unsqueeze(-1)).squeeze(-1), where)
    """,
    "a constant that gets a gradient of zeros": """
        def best(x, prior):
            values, indices = torch.sort(x + prior.detach() + 0 * prior, dim=-1, descending=True)
            return values[..., 0], indices[..., 0]
    """,
    "a frozen parameter in a subclass of its own": """
        class Shifted(nn.Module):
            def __init__(self, n, *, device=None, dtype=None):
                super().__init__()
                self.shift = nn.Parameter(torch.zeros(n, device=device, dtype=dtype))
                self.base = nn.Parameter(torch.zeros(n, device=device, dtype=dtype)).requires_grad_(False)
            def forward(self, x):
                return (x + self.shift) + self.base
    """,
    "a buffer replaced by a new one": """
        class Offset(nn.Module):
            def __init__(self, n, *, device=None, dtype=None):
                super().__init__()
                self.shift = nn.Parameter(torch.zeros(n, device=device, dtype=dtype))
                self.offset = nn.Buffer(torch.zeros(n, device=device, dtype=dtype))
            def forward(self, x):
                result = x + self.offset + self.shift
                if self.training:
                    self.offset = (self.offset + x.mean(0)).detach()
                return result
    """,
    "a length from a tensor": """
        def ramp(n, *, step, start=0.0):
            steps, length = torch.arange(n, dtype=torch.float32), torch.tensor(step * n, dtype=torch.float32)
            return steps * step + start, length.item()
    """,
    "a formula without a graph": """
        @torch.no_grad()
        def slope(x):
            with torch.enable_grad():
                doubled = x.clone().requires_grad_() * 2
            return doubled.detach()
    """,
    "a backward of its own that is called by name": """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x * x
            @staticmethod
            def backward(ctx, grad): return 2 * ctx.x * grad
        class Context: pass
        def slope(x):
            ctx = Context()
            ctx.x = x
            return Square.backward(ctx, torch.ones_like(x))
    """,
    "an optimiser without a base class": """
        class Descent:
            def __init__(self, params, lr=0.1):
                groups = list(params)
                groups = groups if isinstance(groups[0], dict) else [{"params": groups}]
                self.param_groups = [{"lr": lr} | g for g in groups]
            def step(self):
                for g in self.param_groups:
                    for p in g["params"]:
                        if p.grad is not None:
                            p.data.add_(p.grad, alpha=-g["lr"])
            def zero_grad(self):
                for g in self.param_groups:
                    for p in g["params"]:
                        p.grad = None
    """,
}
WRONG = {
    "one result alone": ("def best(x, prior): return (x + prior.detach()).amax(-1)", "values, indices, in a tuple"),
    "a tree that lies about its length": (
        """
        class Longer(tuple):
            def __len__(self): return 2
        def best(x, prior):
            found = (x + prior.detach()).max(-1)
            return Longer((found.values, found.indices, found.values))
        """,
        "values, indices, in a tuple",
    ),
    "indices of another kind": (
        "def best(x, prior):\n    f = (x + prior.detach()).max(-1)\n    return f.values, f.indices.int()",
        "indices is int64",
    ),
    "indices off by one": (
        "def best(x, prior):\n    f = (x + prior.detach()).max(-1)\n    return f.values, f.indices + 1",
        "indices matches the definition",
    ),
    "a constant with a gradient": (
        "def best(x, prior):\n    f = (x + prior).max(-1)\n    return f.values, f.indices",
        "prior is constant: it gets no gradient",
    ),
    "a result out of the graph": (
        "def best(x, prior):\n    f = (x + prior).detach().max(-1)\n    return f.values, f.indices",
        "no gradient of x comes back",
    ),
    "a place by what is banned": ("def place(x): return x.topk(1).indices[..., 0]", "topk` is not allowed"),
    "topk beside autograd": ("def slope(x): return 2 * x + 0 * x.topk(1).values", "topk` is not allowed"),
    **{
        f"a derivative by {name}": (f"{SLOPE}{textwrap.dedent(source)}", f"`{told_as}` is not allowed")
        for name, told_as, source in (
            ("autograd.grad", "torch.autograd.grad", "def slope(x): return by_grad(x, torch.autograd.grad)"),
            (
                "backward",
                "torch.autograd.backward",
                """
                def slope(x):
                    with torch.enable_grad():
                        leaf = x.clone().requires_grad_()
                        (leaf * leaf).sum().backward()
                    return leaf.grad
                """,
            ),
            (
                "another name",
                "torch.autograd.grad",
                "from torch.autograd import grad as harmless\ndef slope(x): return by_grad(x, harmless)",
            ),
            ("vjp", "torch.func.vjp", "def slope(x): return torch.func.vjp(torch.square, x)[1](torch.ones_like(x))[0]"),
            ("func.grad", "torch.func.grad", "def slope(x): return torch.func.grad(lambda x: (x * x).sum())(x)"),
            (
                "forward mode",
                "torch.func.jvp",
                "def slope(x): return torch.func.jvp(torch.square, (x,), (torch.ones_like(x),))[1]",
            ),
            (
                "dual numbers",
                "aten::_make_dual",
                """
                import torch.autograd.forward_ad as dual
                def slope(x):
                    with dual.dual_level():
                        return dual.unpack_dual(dual.make_dual(x, torch.ones_like(x)).square()).tangent.clone()
                """,
            ),
            (
                "a thread",
                "torch.autograd.grad",
                """
                from threading import Thread
                def slope(x):
                    found = []
                    thread = Thread(target=lambda: found.append(by_grad(x, torch.autograd.grad)))
                    thread.start()
                    thread.join()
                    return found[0]
                """,
            ),
            (
                "the engine itself",
                "autograd::engine",
                """
                def slope(x):
                    engine = torch.autograd.Variable._execution_engine.run_backward
                    run = lambda y, leaf: engine((y,), (torch.ones(()),), False, False, (leaf,), True, False)
                    return by_grad(x, run)
                """,
            ),
        )
    },
    "an input that stays wide taken for one that does not": (
        "def weighed(x, lse):\n    assert lse.dtype is x.dtype, f'{lse.dtype} beside {x.dtype}'\n"
        "    return (x - lse[:, None]).exp()",
        "torch.float32 beside torch.float16",
    ),
    "zeros for None": (
        "def doubled(grads):\n    s = sum(g.sum() for g in grads if g is not None)\n"
        "    return [torch.zeros(1) if g is None else 2 * g for g in grads], s",
        "twice[1] is None",
    ),
    "None for a tensor": (
        "def doubled(grads):\n    return [None for g in grads], sum(g.sum() for g in grads if g is not None)",
        "twice[0] is a tensor",
    ),
    "None left out": (
        "def doubled(grads):\n    s = sum(g.sum() for g in grads if g is not None)\n"
        "    return [2 * g for g in grads if g is not None], s",
        "as many parts as the input",
    ),
    "a part out of the graph": (
        "def doubled(grads):\n    s = sum(g.sum() for g in grads if g is not None)\n"
        "    return [None if g is None else 2 * g.detach() for g in grads], s",
        "gradient of grads[0] is right",
    ),
    "steps without their length": (
        "def ramp(n, *, step, start=0.0): return start + step * torch.arange(n)",
        "steps, length, in a tuple",
    ),
    "a length that is a tensor": (
        "def ramp(n, *, step, start=0.0): return start + step * torch.arange(n), torch.tensor(step * n)",
        "length is a float",
    ),
    "a length of one step less": (
        "def ramp(n, *, step, start=0.0): return start + step * torch.arange(n), step * (n - 1)",
        "length: got 1.0, expected 1.5",
    ),
    "a start without effect": (
        "def ramp(n, *, step, start=0.0): return step * torch.arange(n), step * n",
        "ramp(4, step=0.3, start=1.0)",
    ),
    "a base that is trained": (
        """
        class Shifted(nn.Module):
            def __init__(self, n, *, device=None, dtype=None):
                super().__init__()
                self.base = nn.Parameter(torch.zeros(n, device=device, dtype=dtype))
                self.shift = nn.Parameter(torch.zeros(n, device=device, dtype=dtype))
            def forward(self, x):
                return x + self.base + self.shift
        """,
        "trainable, though it is frozen: base",
    ),
    "a buffer that is a plain attribute": (
        offset(f'register_buffer("offset", {ZEROS})', f"offset = {ZEROS}"),
        "missing: offset (5,)",
    ),
    "a buffer that is a frozen parameter": (
        offset(f'register_buffer("offset", {ZEROS})', f"offset = nn.Parameter({ZEROS}, requires_grad=False)"),
        "a parameter, though it is a buffer: offset",
    ),
    "a buffer of another shape": (
        offset('"offset", torch.zeros(n', '"offset", torch.zeros(1, n'),
        "offset: got (1, 5), expected (5,)",
    ),
    "a buffer that the state dict leaves out": (
        offset(f'"offset", {ZEROS}', f'"offset", {ZEROS}, persistent=False'),
        "missing: ['offset']",
    ),
    "a buffer in another dtype": (
        offset(f'"offset", {ZEROS}', '"offset", torch.zeros(n, device=device)'),
        "offset is float32 with dtype=float64",
    ),
    "a buffer that hangs on a graph": (
        offset(ADDED, "self.offset = self.offset + x.mean(0)"),
        "the offset has no graph",
    ),
    "a buffer that training leaves alone": (offset(ADDED, "pass"), "training adds the mean to the offset"),
    "a store that puts new rows first": (
        """
        class Store:
            def __init__(self, width): self.rows = None
            def append(self, rows):
                self.rows = rows.clone() if self.rows is None else torch.cat([rows, self.rows])
                return self.rows
        """,
        "rows come in order, as they were",
    ),
    "a store that holds the caller's tensor": (
        """
        class Store:
            def __init__(self, width): self.parts = []
            def append(self, rows):
                self.parts.append(rows)
                return torch.cat(self.parts)
        """,
        "rows come in order, as they were",
    ),
    "an optimiser that swaps the parameters": (
        """
        class Descent(torch.optim.Optimizer):
            def __init__(self, params, lr=0.1): super().__init__(params, {"lr": lr})
            def step(self):
                for g in self.param_groups:
                    g["params"] = [p if p.grad is None else nn.Parameter(p - g["lr"] * p.grad) for p in g["params"]]
        """,
        "param_groups no longer hold the tensors",
    ),
    "an optimiser that scales the gradient": (
        """
        class Descent(torch.optim.Optimizer):
            def __init__(self, params, lr=0.1): super().__init__(params, {"lr": lr})
            @torch.no_grad()
            def step(self):
                for g in self.param_groups:
                    for p in g["params"]:
                        if p.grad is not None:
                            p.sub_(p.grad.mul_(g["lr"]))
        """,
        "a .grad was changed",
    ),
    "an optimiser that gives parameters other memory": (
        """
        class Descent(torch.optim.Optimizer):
            def __init__(self, params, lr=0.1): super().__init__(params, {"lr": lr})
            def step(self):
                for g in self.param_groups:
                    for p in g["params"]:
                        if p.grad is not None:
                            p.data = p.data - g["lr"] * p.grad
        """,
        "a parameter lies elsewhere in memory",
    ),
    "lr read once": (
        """
        class Descent(torch.optim.Optimizer):
            def __init__(self, params, lr=0.1):
                super().__init__(params, {"lr": lr})
                self.rates = [g["lr"] for g in self.param_groups]
            @torch.no_grad()
            def step(self):
                for g, lr in zip(self.param_groups, self.rates):
                    for p in g["params"]:
                        if p.grad is not None:
                            p.sub_(lr * p.grad)
        """,
        "lr is read anew",
    ),
}


def made_up(root: Path, name: str, grader: str) -> catalog.Kata:
    """A kata of this name and grader, in a project of its own."""
    for place, text in {"solutions": MASTER, "katas": ""}.items():
        (root / place / "basics").mkdir(parents=True)
        (root / place / "basics" / f"{name}.py").write_text(text)
    kata = catalog.katas(root)[name]
    kata.proofs.mkdir(parents=True)
    kata.grader.write_text(grader)
    return kata


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Callable[[str], Verdict]:
    """The verdict on the made-up kata's master with these definitions behind it."""
    root = tmp_path_factory.mktemp("made-up")
    kata = made_up(root, "made", GRADER)

    def judge(source: str) -> Verdict:
        whole = f"{MASTER}\n{IMPORTS}{textwrap.dedent(source)}\n"
        return run([Entry(kata, whole, "made.py", "")], Options(SEED, diagnose=False), server)[0]

    return judge


def every_other(names: Iterable[str]) -> list[Any]:
    """Half of them on every run, the others in the proof."""
    return [pytest.param(name, marks=[] if number % 2 else pytest.mark.proof) for number, name in enumerate(names)]


def test_the_master_passes(judged: Callable[[str], Verdict]) -> None:
    verdict = judged("")
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.parametrize("form", every_other(RIGHT))
def test_right_attempts_pass(form: str, judged: Callable[[str], Verdict]) -> None:
    verdict = judged(RIGHT[form])
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.parametrize("mistake", every_other(WRONG))
def test_wrong_attempts_end_in_their_sentence(mistake: str, judged: Callable[[str], Verdict]) -> None:
    source, sentence = WRONG[mistake]
    verdict = judged(source)
    assert failures(verdict)
    assert sentence in told(verdict)


def test_a_grader_that_cannot_be_imported_is_told_as_its_own_fault(
    tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    kata = made_up(tmp_path, "broken", "import nothing_of_the_kind\n")
    verdict = run([Entry(kata, MASTER, "broken.py", "")], Options(SEED), server)[0]
    assert verdict.verdict == "failed"
    assert "our fault, not yours: the grader cannot be read" in verdict.checks[0].message
    assert "nothing_of_the_kind" in verdict.checks[0].message
