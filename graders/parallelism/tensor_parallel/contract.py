"""What `TensorParallelSwiGLU` must do. The oracle is the undivided layer, silu by its sigmoid in float64."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Draw, Group, ModuleContract, OnRanks, fail, match, robust, tensor
from dojo.contracts.oracles import library_swiglu, swiglu


def in_parts(init: dict, params: dict, x: Tensor) -> Tensor:
    """Partial results, and partial gradients of x, rounded before they are summed."""
    size = init["group"].size
    cut = [params["w1.weight"].chunk(size), params["w3.weight"].chunk(size), params["w2.weight"].chunk(size, 1)]
    parts = [F.linear(F.silu(F.linear(x, w1)) * F.linear(x, w3), w2) for w1, w3, w2 in zip(*cut, strict=True)]
    return sum(parts[1:], parts[0])


class TestTensorParallelSwiGLU(OnRanks, ModuleContract):
    name = "TensorParallelSwiGLU"
    oracle = swiglu
    variants = (library_swiglu, swiglu, in_parts)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    same_bits = False
    shards = {"w1.weight": 0, "w3.weight": 0, "w2.weight": 1}
    sizes = {"d_model": 6, "d_ff": 8, "group": Group(4)}
    scales = {"w1": 3.0}
    holds = {
        "Communication": ("test_there_is_one",),
        "Gradients": ("test_gradients_match", "test_the_gradient_of"),
        "Half precision": ("test_half_precision",),
        "Errors": ("test_a_width",),
    }
    cases = {
        "four_ranks": {},
        "two_ranks": {"shape": (3,), "group": Group(2)},
        "three_ranks": {"d_model": 5, "d_ff": 21, "group": Group(3)},
        "one_rank": {"group": Group(1)},
        "one_row_a_rank": {"shape": (1,), "d_ff": 4},
    }
    more_shapes = {
        "no_leading_axes": {"shape": ()},
        "three_leading_axes": {"shape": (2, 3, 5), "group": Group(2)},
    }
    near_300 = {"offset": 300.0, "w1": 0.02}
    representative = ("four_ranks", "two_ranks")
    grows = {"the leading axes": "shape"}
    memory_in = "shape"
    timed = {"shape": (256,), "d_model": 128, "d_ff": 344, "group": Group(2)}
    time_limit = 10.0

    @robust
    def test_there_is_one_all_reduce_each_way(self, attempt: Attempt, draw: Draw) -> None:
        """Each all-reduce waits for the slowest rank, and nothing else can be done meanwhile."""
        for case, make in self.cases.items():
            call = make(draw).to(attempt.device)
            with self.case_context(attempt, case, call):
                module = self.ready(attempt, call)
                x = call.inputs["x"].requires_grad_()
                asked = {"target": module.target, "args": (x,), "kwargs": {}}
                module.ask(do="call", **asked)
                self.was_one(attempt, x, "without autograd")
                made = module.ask(do="call", grad=True, **asked)
                self.was_one(attempt, x, "in the forward")
                module.ask(do="backward", call=made["call"], cotangents=[torch.ones_like(x)])
                self.was_one(attempt, x, "in the backward")

    def was_one(self, attempt: Attempt, x: Tensor, where: str) -> None:
        """The last request was one all-reduce of the size of x."""
        calls = [f"{each['operation']} of {each['numbers']} numbers" for each in attempt.calls[-1]]
        if calls != [wanted := f"all_reduce of {x.numel()} numbers"]:
            fail(f"there is one {wanted} {where}", f"there were {', '.join(calls) or 'none'}")

    @robust
    def test_the_gradient_of_a_residual_is_not_summed(self, attempt: Attempt, draw: Draw) -> None:
        """A hook on the caller's x also sums what reaches it past the layer, as in every block of a model."""
        call = self.call(draw).to(attempt.device)
        x, module = call.inputs["x"], self.ready(attempt, call)
        exact = {name: value.cpu().double() for name, value in (call.params | {"x": x}).items()}
        leaf = exact["x"].requires_grad_()
        (leaf + swiglu(exact, leaf)).sum().backward()
        with self.case_context(attempt, "x + layer(x)", call):
            target, ones = ["beside_its_input", module.target], [torch.ones_like(x)]
            found = module.ask(do="forward_backward", target=target, args=(x,), kwargs={}, cotangents=ones)
            got = tensor(found["inputs"][0], attempt.device).cpu()
            size = leaf.grad.abs() + leaf.grad.square().mean().sqrt()
            match(got, leaf.grad, 1e-5 * size, "gradient of x is right in x + layer(x)", self.axes["x"])

    @robust
    def test_a_width_that_cannot_be_shared_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """The last rows belong to nobody: a checkpoint loads, and the layer computes something else."""
        for d_ff, size in ((10, 4), (7, 2), (2, 4)):
            call = self.call(draw)
            call = replace(call, init=call.init | {"d_ff": d_ff, "group": Group(size)})
            self.refuses(attempt, call, d_ff, size, sentence=f"d_ff={d_ff} on {size} ranks is refused")
