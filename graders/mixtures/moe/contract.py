"""What `MixtureOfExperts` must do. The oracle runs every expert on every token, weighted by a table with zeros."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    ModuleContract,
    assert_raises,
    fast,
    robust,
    too_much,
)

GAP = 0.4  # between the logits of the k-th expert and the next, which half precision does not close


def every_expert_on_every_token(init: dict, params: dict, x: Tensor) -> Tensor:
    logits = x @ params["router.weight"].mT
    least = logits.detach().topk(init["k"], -1).values[..., -1:]
    odds = (logits - logits.detach().amax(-1, keepdim=True)).exp() * (logits >= least)
    table = odds / odds.sum(-1, keepdim=True)
    total = torch.zeros_like(x)
    for e in range(init["num_experts"]):
        gate = x @ params["w1"][e].mT
        total = total + table[..., e, None] * (
            (gate / (1 + (-gate).exp()) * (x @ params["w3"][e].mT)) @ params["w2"][e].mT
        )
    return total


def mixtral(init: dict, params: dict, x: Tensor) -> Tensor:
    """Expert by expert in the dtype of x, weights and sums too."""
    tokens = x.reshape(-1, x.shape[-1])
    weights, experts = routed(tokens @ params["router.weight"].mT, init["k"])
    weights, out = weights.to(x.dtype), torch.zeros_like(tokens)
    for e in range(init["num_experts"]):
        token, slot = torch.where(experts == e)
        each = tokens[token]
        hidden = F.silu(each @ params["w1"][e].mT) * (each @ params["w3"][e].mT)
        out = out.index_add(0, token, weights[token, slot, None] * (hidden @ params["w2"][e].mT))
    return out.reshape(x.shape)


def weighted_inside(init: dict, params: dict, x: Tensor) -> Tensor:
    """In float32, each hidden layer weighted before its last product, and a router whose gradient slips."""
    wide = {name: value.to(torch.promote_types(x.dtype, torch.float32)) for name, value in params.items()}
    tokens = x.reshape(-1, x.shape[-1]).to(wide["w1"].dtype)
    weights, experts = routed(tokens @ wide["router.weight"].mT, init["k"], slips=True)
    out = 0
    for weight, chosen in zip(weights.unbind(-1), experts.unbind(-1), strict=True):
        gate, value = (torch.einsum("nfd,nd->nf", wide[name][chosen], tokens) for name in ("w1", "w3"))
        hidden = weight[:, None] * (gate * torch.sigmoid(gate) * value)
        out = out + torch.einsum("ndf,nf->nd", wide["w2"][chosen], hidden)
    return out.to(x.dtype).reshape(x.shape)


def in_its_dtype(init: dict, params: dict, x: Tensor) -> Tensor:
    """All experts, their outputs kept in the dtype of x and multiplied by a table of weights in it."""
    weights, experts = routed(x @ params["router.weight"].mT, init["k"], slips=True)
    table = torch.zeros(*x.shape[:-1], init["num_experts"]).to(weights).scatter(-1, experts, weights).to(x.dtype)
    gate, value = (torch.einsum("...d,efd->...ef", x, params[name]) for name in ("w1", "w3"))
    outputs = torch.einsum("...ef,edf->...ed", F.silu(gate) * value, params["w2"])
    return (table[..., None] * outputs).sum(-2)


def routed(logits: Tensor, k: int, slips: bool = False) -> tuple[Tensor, Tensor]:
    probs = torch.softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
    weights, experts = (slipping(probs) if slips else probs).topk(k, -1)
    weights = weights / weights.sum(-1, keepdim=True)
    return slipping(weights) if slips else weights, experts


def slipping(x: Tensor) -> Tensor:
    """The same, with a gradient off by some roundings: what should cancel in the router's need not."""
    off = 16 * torch.finfo(x.dtype).eps * torch.cos(13 * torch.arange(x.numel())).view_as(x).to(x)
    if x.requires_grad:
        x.register_hook(lambda grad: grad * (1 + off))
    return x


class TestMixtureOfExperts(ModuleContract):
    name = "MixtureOfExperts"
    oracle = every_expert_on_every_token
    variants = (mixtral, weighted_inside, in_its_dtype)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "two_of_four": {},
        "three_of_five": {"experts": 5, "k": 3},
        "all_experts": {"experts": 3, "k": 3},
        "experts_without_tokens": {"experts": 11, "shape": (3,)},
        "all_tokens_alike": {"alike": True, "shape": (160,), "experts": 11},
        "many_tokens": {"shape": (40,)},
    }
    more_shapes = {
        # One token with every expert chosen: rounding must not decide what is exactly 0 in the router's gradient.
        "one_token": {"shape": (1,), "k": 4},
        "no_leading_dimensions": {"shape": (), "k": 4},
        "three_leading_dimensions": {"shape": (2, 1, 3)},
    }
    representative = ("two_of_four", "three_of_five", "experts_without_tokens")
    near_300 = {"offset": 300.0, "gate": 0.02, "router": 0.02, "shape": (3,)}
    grows = {"tokens": "tokens", "width": "d_model", "hidden width": "d_ff"}
    growth_sizes = (64, 160)
    timed = {"tokens": 384, "d_model": 32, "d_ff": 64, "experts": 8}
    time_limit = 40.0

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (2, 5), tokens: int = 0, d_model: int = 6, d_ff: int = 9, experts: int = 4,
        k: int = 2, alike: bool = False, offset: float = 0.0, gate: float = 2.0, router: float = 1.5,
    ) -> Call:  # fmt: skip
        """Tokens whose choice is clear: those of many whose k-th logit is well above the next."""
        shape, init = (tokens,) if tokens else shape, {"d_model": d_model, "d_ff": d_ff, "num_experts": experts, "k": k}
        params = cls.params(d, init, w1=gate, router=router)
        rows = torch.Size(shape).numel()
        tried = d.normal(30 * max(rows, 8), d_model)
        tried = offset + (tried[:1] + 0.02 * tried if alike else tried)
        if k < experts:
            logits = (tried @ params["router.weight"].mT).sort(-1, descending=True).values
            gaps = logits[:, k - 1] - logits[:, k]
            tried = tried[gaps > GAP] if (gaps > GAP).sum() >= rows else tried[gaps.argsort(descending=True)]
        return Call({"x": tried[:rows].reshape(*shape, d_model)}, init, params)

    @robust
    def test_one_expert_a_token_has_the_weight_one(self, attempt: Attempt, draw: Draw) -> None:
        """Where k is 1 the layer gives less than its expert does, and each layer damps the signal."""
        self.verify(attempt, draw, "one of four", self.call(draw, k=1))

    @robust
    def test_the_order_of_tokens_changes_nothing(self, attempt: Attempt, draw: Draw) -> None:
        """What a user gets depends on who else is in the batch."""
        call = self.call(draw, shape=(24,))
        order = draw.positions(24, 24)
        moved = call.with_inputs(x=call.inputs["x"][order])
        calls = [("24 tokens", call), ("the same tokens in another order", moved)]
        large = call.inputs["x"] * torch.tensor(8 * [1000.0] + 16 * [1.0])[:, None]
        self.verify_all(attempt, draw, [*calls, ("a third of them with large logits", call.with_inputs(x=large))])

    @robust
    def test_wrong_k_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """More experts than there are fail deep inside the first call, and none at all give zeros."""
        for k in (0, -1, 5):
            sentence = f"k={k} of 4 experts is refused when the module is built"
            assert_raises(lambda k=k: attempt.MixtureOfExperts.request((6, 9, 4, k), {}), k, sentence=sentence)

    @fast
    def test_more_experts_cost_no_more(self, attempt: Attempt, draw: Draw) -> None:
        d_model, d_ff, k, made = 32, 48, 2, []
        for experts, tokens in ((8, 1024), (16, 1024), (16, 4)):
            call = self.call(draw, tokens=tokens, d_model=d_model, d_ff=d_ff, experts=experts, k=k)
            even = (torch.arange(tokens)[:, None] + torch.arange(k)) % experts  # every expert has as many tokens
            x = 0.1 * call.inputs["x"].scatter(-1, even, 10.0 + draw.normal(tokens, k))
            call = call.with_inputs(x=x).with_params(**{"router.weight": torch.eye(experts, d_model)})
            readings = attempt.observed([self.prepare_call(attempt, call)], [])
            made.append((readings["flops"] - 2 * tokens * d_model * experts, readings["elements"]))
            needed = 6 * tokens * k * d_model * d_ff
            if made[-1][0] > 1.3 * needed:
                seen = f"{made[-1][0]:,} operations in products of {tokens:,} tokens with {experts} experts"
                seen += f", {k} for each token take {needed:,}"
                too_much("the products are those of k experts for each token", seen)
        if made[1][1] > 1.6 * made[0][1]:
            seen = f"{made[0][1]:,} elements were made with 8 experts, {made[1][1]:,} with 16"
            too_much("twice as many experts cost the same", seen)
