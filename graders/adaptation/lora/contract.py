"""What `LoRALinear` must do. The oracle multiplies the adapter out and adds it to the weight, in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    HALF,
    Attempt,
    Call,
    Draw,
    ModuleContract,
    bare,
    core,
    fail,
    fast,
    match,
    robust,
    too_much,
)
from dojo.judge.proxy import Module

COPIES = frozenset(
    """t transpose permute detach alias view expand unsqueeze squeeze slice select as_strided clone
    _to_copy copy_ lift_fresh view_as _unsafe_view empty empty_like empty_strided""".split()
)  # the weight's own numbers


def scale(init: dict) -> float:
    return init["alpha"] / init["rank"]


def change(call: Call) -> Tensor:
    """(alpha / rank) B A, entry by entry, in float64."""
    a, b = call.params["lora_a"].double(), call.params["lora_b"].double()
    return scale({"alpha": 16.0} | call.init) * sum(b[:, r, None] * a[None, r] for r in range(len(a)))


def dense(init: dict, params: dict, x: Tensor) -> Tensor:
    whole = params["weight"] + scale(init) * (params["lora_b"] @ params["lora_a"])
    return torch.einsum("oi,...i->...o", whole, x)


def as_peft(init: dict, params: dict, x: Tensor) -> Tensor:
    """Every product rounded, and the sum."""
    return F.linear(x, params["weight"]) + F.linear(F.linear(x, params["lora_a"]), params["lora_b"]) * scale(init)


def scaled_first(init: dict, params: dict, x: Tensor) -> Tensor:
    return x @ params["weight"].mT + (scale(init) * x) @ params["lora_a"].mT @ params["lora_b"].mT


def scaled_between(init: dict, params: dict, x: Tensor) -> Tensor:
    narrow = scale(init) * (x @ params["lora_a"].mT)
    return F.linear(narrow, params["lora_b"]) + F.linear(x, params["weight"])


def term_after_term(init: dict, params: dict, x: Tensor) -> Tensor:
    """The least accurate sums there are, in float32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    x, (w, a, b) = x.to(wide), (params[name].to(wide) for name in ("weight", "lora_a", "lora_b"))

    def product(x: Tensor, m: Tensor) -> Tensor:
        return sum((x[..., None, :] * m).unbind(-1))

    return (product(x, w) + scale(init) * product(product(x, a), b)).to(params["weight"].dtype)


class TestLoRALinear(ModuleContract):
    name = "LoRALinear"
    oracle = dense
    variants = (as_peft, scaled_first, scaled_between, term_after_term)
    constants = ("weight",)
    sizes = {"in_features": 5, "out_features": 6, "rank": 2}
    cases = {
        "rank_two": {},
        "rank_three_and_alpha": {"rank": 3, "alpha": 2.5},
        "rank_one": {"shape": (2,), "rank": 1, "alpha": 3.0},
        "square": {"in_features": 4, "out_features": 4, "rank": 3, "alpha": 5.0},
        "a_rank_above_both_widths": {"rank": 9, "alpha": 4.0},
        "narrow_to_wide": {"shape": (3,), "in_features": 3, "out_features": 11, "alpha": 1.0},
    }
    hard_cases = {
        "a_negative_alpha": {"alpha": -3.0},
        "alpha_zero": {"alpha": 0.0},
        "alpha_an_int": {"alpha": 3},
    }
    representative = ("rank_two", "rank_three_and_alpha", "a_rank_above_both_widths")
    near_300 = {"shape": (3,), "alpha": 3.0, "offset": 300.0}
    memory_in = "shape"
    timed = {"shape": (512,), "in_features": 256, "out_features": 192, "rank": 8}

    def after(self, attempt: Attempt, call: Call, methods: str, dtype: torch.dtype = torch.float32) -> Module:
        """The layer after these calls of its methods, with gradients on as where one trains."""
        module = self.ready(attempt, call, dtype)
        for name in methods.split():
            told = f"{', '.join(f'{each}()' for each in methods.split())}"
            with self.case_context(attempt, told, call):
                module.ask(do="call", target=module.target, method=name, args=(), kwargs={}, grad=True)
        return module

    def assert_weight(self, attempt: Attempt, draw: Draw, methods: str, merged: bool, sentence: str) -> None:
        """The weight after these methods, and what the layer then gives."""
        call = self.call(draw, rank=3, alpha=2.5)
        module, told = self.after(attempt, call, methods), f"after {methods.replace(' ', '(), ')}()"
        weight, delta = call.params["weight"].double(), change(call)
        expected = weight + delta if merged else weight
        allowed = 8 * torch.finfo(torch.float32).eps * (weight.abs() + delta.abs().max())
        found = module.describe()["parameters"][self.weight_of(module)].cpu()
        match(found, expected, allowed, f"{sentence}: {told}", "out in")
        args, kwargs = self.arguments(call.to(attempt.device))
        with self.case_context(attempt, told, call):
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, told, call, got)

    def weight_of(self, module: Module) -> str:
        held = module.outline()["shapes"]
        if "weight" not in held:
            fail("the layer holds a parameter `weight`", f"got {', '.join(held)}")
        return "weight"

    @core
    def test_merge_adds_the_adapter_to_the_weight(self, attempt: Attempt, draw: Draw) -> None:
        self.assert_weight(attempt, draw, "merge", True, "merge() adds (alpha / rank) B A to the weight")

    @core
    def test_unmerge_takes_the_adapter_off(self, attempt: Attempt, draw: Draw) -> None:
        for methods in ("merge unmerge", "merge unmerge merge unmerge"):
            self.assert_weight(attempt, draw, methods, False, "unmerge() gives the weight back, up to rounding")
        self.assert_weight(attempt, draw, "merge unmerge merge", True, "merge() adds (alpha / rank) B A to the weight")

    @core
    def test_a_merged_layer_uses_the_weight_alone(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, alpha=3.0)
        module, told = self.after(attempt, call, "merge"), "another weight, loaded into a merged layer"
        other = call.with_params(weight=2 * draw.normal(6, 5), lora_b=torch.zeros(6, 2))
        module.load_state_dict({"weight": other.params["weight"].to(attempt.device)})
        args, kwargs = self.arguments(call.to(attempt.device))
        with self.case_context(attempt, told, call):
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, told, other, got)

    @robust
    def test_gradients_flow_to_x_through_a_merged_layer(self, attempt: Attempt, draw: Draw) -> None:
        """What lies below a merged layer gets no gradients, and does not learn."""
        call, cotangent = self.call(draw, rank=3, alpha=2.5), draw.normal(2, 5, 6)
        module = self.after(attempt, call, "merge")
        args, kwargs = self.arguments(call.to(attempt.device))
        asked = {"args": args, "kwargs": kwargs, "cotangents": [cotangent.to(attempt.device)]}
        with self.case_context(attempt, "after merge()", call):
            found = module.ask(do="forward_backward", target=module.target, **asked)["inputs"]
        whole = call.params["weight"].double() + change(call)
        sentence, sizes = "merged, gradients flow to x", cotangent.double().abs() @ whole.abs()
        if not found or found[0] is None:
            fail(sentence, "no gradient comes back")
        allowed = 32 * torch.finfo(torch.float32).eps * sizes
        match(found[0].cpu(), cotangent.double() @ whole, allowed, sentence, "batch rows in")

    @robust
    def test_merging_or_unmerging_again_does_nothing(self, attempt: Attempt, draw: Draw) -> None:
        """A loop over all layers merges a shared one twice, and its change counts double."""
        for methods, merged in (("merge merge", True), ("unmerge", False), ("merge unmerge unmerge", False),
                                ("merge merge unmerge", False), ("unmerge merge", True)):  # fmt: skip
            self.assert_weight(attempt, draw, methods, merged, "merging or unmerging again does nothing")

    @robust
    def test_the_weight_stays_the_same_frozen_parameter(self, attempt: Attempt, draw: Draw) -> None:
        """Another layer that shares the weight, or an optimiser, keeps the old tensor; or the base starts to train."""
        call = self.call(draw)
        module = self.ready(attempt, call)
        before = module.outline()["objects"].get(self.weight_of(module))
        for name in ("merge", "unmerge"):
            module.ask(do="call", target=module.target, method=name, args=(), kwargs={}, grad=True)
            outline = module.outline()
            if outline["objects"].get("weight") != before:
                fail("the weight is changed in place: it stays the same parameter", f"{name}() made another object")
            if "weight" in outline["trainable"]:
                fail("the weight stays frozen", f"after {name}() it takes gradients")

    @robust
    def test_a_weight_in_half_precision_is_merged_in_its_dtype(self, attempt: Attempt, draw: Draw) -> None:
        """Merged for serving, the layer has a weight of another dtype, which fails in the next product."""
        for dtype in (*HALF, torch.float64):
            call = self.call(draw, rank=3, alpha=2.5).cast(dtype)
            sizes = call.params["weight"].double().abs() + change(call).abs() + change(call).abs().mean()
            allowed = 4 * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) * sizes
            for methods, merged in (("merge", 1), ("merge unmerge", 0)):
                found = self.after(attempt, call, methods, dtype).describe()["parameters"].get("weight")
                if found is None or found.dtype is not dtype:
                    fail(
                        "the weight keeps its dtype", f"after {methods} it is {found if found is None else found.dtype}"
                    )
                expected = call.params["weight"].double() + merged * change(call)
                match(found.cpu(), expected, allowed, f"{methods.split()[-1]}() in {bare(dtype)}", "out in")

    @core
    def test_a_new_layer_starts_as_the_base(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, alpha=3.0)
        module, told = self.build(attempt, call).to(attempt.device), "a new layer, its weight loaded"
        b = module.describe()["parameters"].get("lora_b")
        if b is not None and b.count_nonzero():
            fail("lora_b starts with zeros", f"a new layer has {b.flatten()[:4].tolist()} …")
        module.load_state_dict({"weight": call.params["weight"].to(attempt.device)})
        args, kwargs = self.arguments(call.to(attempt.device))
        with self.case_context(attempt, told, call):
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, told, call.with_params(lora_b=torch.zeros(6, 2)), got)

    @robust
    def test_lora_a_starts_uniform(self, attempt: Attempt) -> None:
        """With both matrices at zero nothing is ever learnt, and with one too large the first steps are."""
        sentence, bound = "lora_a starts uniform in ±1/√in_features", 400**-0.5
        drawn = []
        for watch in (True, False):  # watching starts from a seeded generator, so that every run draws the same
            with torch.no_grad():
                module = attempt.LoRALinear.request((400, 3, 100), {}, watch=watch)["value"]
            held = module.describe()["parameters"] if isinstance(module, Module) else {}
            if "lora_a" not in held or held["lora_a"].numel() != 40_000:
                fail("the layer holds a parameter `lora_a` of shape (rank, in_features)")
            drawn.append(held["lora_a"].detach().double().cpu().flatten().sort().values)
        found = (drawn[0] / bound + 1) / 2
        ranks = (torch.arange(len(found)) + 0.5) / len(found)
        gap = float((found - ranks).abs().max())
        # Kolmogorov's test, which rejects right values once in 10⁹ draws
        if torch.equal(*drawn) or not -1e-6 <= found[0] <= found[-1] <= 1 + 1e-6 or gap > 3.3 / len(found) ** 0.5:
            seen = f"from {drawn[0][0]:.3g} to {drawn[0][-1]:.3g}, standard deviation {drawn[0].std():.3g}"
            fail(sentence, seen, f"expected from {-bound:.3g} to {bound:.3g}, standard deviation {bound / 3**0.5:.3g}")

    @robust
    def test_a_rank_below_one_is_refused(self, attempt: Attempt) -> None:
        """alpha / 0 fails far from its cause, and a negative rank in torch's own words."""
        for rank in (0, -2):
            made = Call({"x": torch.zeros(2, 5)}, {"in_features": 5, "out_features": 6, "rank": rank})
            self.refuses(attempt, made, rank, sentence=f"rank {rank} is refused")

    @fast
    def test_the_adapter_is_never_multiplied_out(self, attempt: Attempt, draw: Draw) -> None:
        callee, args, kwargs = self.prepare_call(
            attempt, self.call(draw, (2,), in_features=64, out_features=48, rank=3)
        )
        made = {name: size for name, size in callee.largest(*args, **kwargs).items() if name not in COPIES}
        name, size = max(made.items(), key=lambda item: item[1], default=("", 0))
        if size >= 4 * 64 * 48:
            too_much("no tensor of out_features × in_features entries is made", f"{name} made one")
