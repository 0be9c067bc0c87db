"""What `LoRALinear` must do. The oracle multiplies the adapter out and adds it to the weight, in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import HALF, Attempt, Call, Draw, ModuleContract, core, fail, fast, match, robust, too_much
from dojo.judge.proxy import Module

COPIES = frozenset(
    """t transpose permute detach alias view expand unsqueeze squeeze slice select as_strided clone
    _to_copy copy_ lift_fresh view_as _unsafe_view empty empty_like empty_strided""".split()
)  # the weight's own numbers


def scale(init: dict) -> float:
    return init["alpha"] / init["rank"]


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
    variants = (dense, as_peft, scaled_first, scaled_between, term_after_term)
    constants = ("weight",)
    holds = {
        "Start": ("test_a_new_layer", "test_lora_a"),
        "Merging": ("test_merge_and_unmerge", "test_a_merged_layer", "test_merging_or"),
        "The weight": ("test_the_weight_stays",),
        "Cost": ("test_the_adapter",),
        "Half precision": ("test_half",),
        "Errors": ("test_a_rank",),
    }
    sizes = {"in_features": 5, "out_features": 6, "rank": 2}
    cases = {
        "rank_two": {},
        "rank_three_and_alpha": {"rank": 3, "alpha": 2.5},
        "rank_one": {"shape": (2,), "rank": 1, "alpha": 3.0},
        "square": {"in_features": 4, "out_features": 4, "rank": 3, "alpha": 5.0},
        "a_rank_above_both_widths": {"rank": 9, "alpha": 4.0},
    }
    representative = ("rank_two", "rank_three_and_alpha", "a_rank_above_both_widths")
    memory_in = "shape"
    timed = {"shape": (512,), "in_features": 256, "out_features": 192, "rank": 8}

    def after(
        self, attempt: Attempt, draw: Draw, methods: str, call: Call, dtype: torch.dtype = torch.float32,
        loaded: Call | None = None,
    ) -> Module:  # fmt: skip
        """The layer after these calls of its methods, with gradients on as where one trains; what it gives is right.

        `loaded` is a call with another weight, which is loaded into it at last.
        """
        module = self.ready(attempt, call, dtype)
        told = ", ".join(f"{name}()" for name in methods.split()) + (", then another weight" if loaded else "")
        with self.case_context(attempt, told, call):
            for name in methods.split():
                module.ask(do="call", target=module.target, method=name, args=(), kwargs={}, grad=True)
            if loaded:
                module.load_state_dict({"weight": loaded.params["weight"].to(attempt.device)})
            args, kwargs = self.arguments(call.to(attempt.device))
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, f"after {told}", loaded or call, got, dtype)
        return module

    @core
    def test_merge_and_unmerge_leave_the_result_as_it_is(self, attempt: Attempt, draw: Draw) -> None:
        for methods in ("merge", "merge unmerge", "merge unmerge merge"):
            call = self.call(draw, rank=3, alpha=2.5)
            module = self.after(attempt, draw, methods, call)
            if methods.endswith("unmerge"):  # which a layer that stays merged gives as well
                weight, a, b = (call.params[name].double() for name in ("weight", "lora_a", "lora_b"))
                change = scale(call.init) * b.abs() @ a.abs()
                allowed = 8 * torch.finfo(torch.float32).eps * (weight.abs() + change)
                found = module.describe()["parameters"].get("weight")
                if found is None:
                    fail("the layer holds a parameter `weight`")
                match(found.cpu(), weight, allowed, "unmerge() gives the weight back, up to rounding", "out in")

    @core
    def test_a_merged_layer_uses_the_weight_alone(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, alpha=3.0)
        other = call.with_params(weight=2 * draw.normal(6, 5), lora_b=torch.zeros(6, 2))
        self.after(attempt, draw, "merge", call, loaded=other)

    @robust
    def test_merging_or_unmerging_again_does_nothing(self, attempt: Attempt, draw: Draw) -> None:
        """A loop over all layers merges a tied one twice, and its change counts double."""
        for methods in ("merge merge", "unmerge", "merge unmerge unmerge", "merge merge unmerge", "unmerge merge"):
            self.after(attempt, draw, methods, self.call(draw, rank=3, alpha=2.5))

    @robust
    def test_the_weight_stays_the_same_frozen_parameter(self, attempt: Attempt, draw: Draw) -> None:
        """A layer that is tied to it, or an optimizer, keeps the old tensor; or the base starts to train."""
        for dtype in (torch.float32, *HALF):
            call = self.call(draw, rank=3, alpha=2.5).cast(dtype)
            module = self.ready(attempt, call, dtype)
            kept = module.outline()["objects"].get("weight")
            for name in ("merge", "unmerge"):
                module.ask(do="call", target=module.target, method=name, args=(), kwargs={}, grad=True)
                outline, found = module.outline(), module.describe()["parameters"].get("weight")
                if outline["objects"].get("weight") != kept:
                    fail("the weight stays the same parameter", f"{name}() made another object")
                if "weight" in outline["trainable"]:
                    fail("the weight stays frozen", f"after {name}() it takes gradients")
                if found is None or found.dtype is not dtype:
                    fail(
                        "the weight keeps its dtype", f"after {name}() it is {found if found is None else found.dtype}"
                    )
            self.after(attempt, draw, "merge", call, dtype)

    @core
    def test_a_new_layer_starts_as_the_base(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, alpha=3.0)
        module, told = self.build(attempt, call).to(attempt.device), "a new layer, its weight loaded"
        held = module.describe()["parameters"]
        if "lora_b" in held and held["lora_b"].count_nonzero():
            fail("lora_b starts with zeros", f"a new layer has {held['lora_b'].flatten()[:4].tolist()} …")
        module.load_state_dict({"weight": call.params["weight"].to(attempt.device)})
        args, kwargs = self.arguments(call.to(attempt.device))
        with self.case_context(attempt, told, call):
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, told, call.with_params(lora_b=torch.zeros(6, 2)), got)

    @robust
    def test_lora_a_starts_small_and_at_random(self, attempt: Attempt) -> None:
        """With both matrices at zero nothing is ever learned, and with one too large the first steps are."""
        drawn = []
        for _ in range(2):
            held = attempt.LoRALinear.build(400, 3, 100).describe()["parameters"]
            if "lora_a" not in held:
                fail("the layer holds a parameter `lora_a`", f"got {', '.join(held)}")
            drawn.append(held["lora_a"].detach().double().flatten())
        mean, std = drawn[0].mean().item(), drawn[0].std().item()
        if torch.equal(*drawn) or not 0.001 < std < 0.5 or abs(mean) > 6 * std / len(drawn[0]) ** 0.5:
            seen = (
                f"mean {mean:.3g} and standard deviation {std:.3g}, from {drawn[0].min():.3g} to {drawn[0].max():.3g}"
            )
            fail("lora_a starts with small random numbers of mean 0", seen)

    @robust
    def test_a_rank_below_one_is_refused(self, attempt: Attempt) -> None:
        """alpha / 0 fails far from its cause, and a negative rank in torch's own words."""
        for rank in (0, -2):
            made = Call({"x": torch.zeros(2, 5)}, {"in_features": 5, "out_features": 6, "rank": rank})
            self.refuses(attempt, made, rank, sentence=f"rank {rank} is refused")

    @fast
    def test_the_adapter_is_never_multiplied_out(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, (2,), in_features=64, out_features=48, rank=3)
        callee, args, kwargs = self.prepare_call(attempt, call)
        made = {name: size for name, size in callee.largest(*args, **kwargs).items() if name not in COPIES}
        name, size = max(made.items(), key=lambda item: item[1], default=("", 0))
        if size >= 4 * 64 * 48:
            too_much("no tensor of out_features × in_features entries is made", f"{name} made one")
