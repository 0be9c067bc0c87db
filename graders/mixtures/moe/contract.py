"""What `MixtureOfExperts` must do. The oracle runs every expert on every token, weighted by a table with zeros."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, ModuleContract, fast, too_much

GAP = 0.4  # between the logits of the k-th expert and the next, which half precision does not close


def every_expert_on_every_token(init: dict, params: dict, x: Tensor) -> Tensor:
    logits = x @ params["router.weight"].mT
    least = logits.detach().topk(init["k"], -1).values[..., -1:]
    odds = (logits - logits.detach().amax(-1, keepdim=True)).exp() * (logits >= least)
    table = odds / odds.sum(-1, keepdim=True)
    total = torch.zeros_like(x)
    for e in range(init["num_experts"]):
        gate = x @ params["w1"][e].mT
        hidden = gate / (1 + (-gate).exp()) * (x @ params["w3"][e].mT)
        total = total + table[..., e, None] * (hidden @ params["w2"][e].mT)
    return total


def weighted_inside(init: dict, params: dict, x: Tensor) -> Tensor:
    """In float32, each hidden layer weighted before its last product."""
    wide = {name: value.to(torch.promote_types(x.dtype, torch.float32)) for name, value in params.items()}
    tokens = x.reshape(-1, x.shape[-1]).to(wide["w1"].dtype)
    weights, experts = routed(tokens @ wide["router.weight"].mT, init["k"])
    out = 0
    for weight, chosen in zip(weights.unbind(-1), experts.unbind(-1), strict=True):
        gate, value = (torch.einsum("nfd,nd->nf", wide[name][chosen], tokens) for name in ("w1", "w3"))
        hidden = weight[:, None] * (gate * torch.sigmoid(gate) * value)
        out = out + torch.einsum("ndf,nf->nd", wide["w2"][chosen], hidden)
    return out.to(x.dtype).reshape(x.shape)


def mixtral(init: dict, params: dict, x: Tensor) -> Tensor:
    """Expert by expert in the dtype of x, weights and sums too."""
    tokens = x.reshape(-1, x.shape[-1])
    weights, experts = routed(tokens @ params["router.weight"].mT, init["k"])
    out = torch.zeros_like(tokens)
    for e in range(init["num_experts"]):
        token, slot = torch.where(experts == e)
        hidden = F.silu(tokens[token] @ params["w1"][e].mT) * (tokens[token] @ params["w3"][e].mT)
        out = out.index_add(0, token, weights[token, slot, None].to(x.dtype) * (hidden @ params["w2"][e].mT))
    return out.reshape(x.shape)


def routed(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Weights whose sum has a gradient off by some roundings: what should cancel in the router's need not."""
    probs = torch.softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
    weights, experts = probs.topk(k, -1)
    total = weights.sum(-1, keepdim=True)
    if total.requires_grad:
        total.register_hook(lambda grad: grad * (1 + 16 * torch.finfo(total.dtype).eps))
    return weights / total, experts


class TestMixtureOfExperts(ModuleContract):
    name = "MixtureOfExperts"
    oracle = every_expert_on_every_token
    variants = (weighted_inside, mixtral)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    holds = {"Weights": ("test_values", "test_gradients"), "No drops": ("test_hard",), "Half precision": ("test_half",)}
    holds |= {"Cost": ("test_more_experts", "test_operation_count")}
    cases = {
        "two_of_four": {},
        "three_of_five": {"experts": 5, "k": 3},
        "experts_without_tokens": {"experts": 11, "shape": (3,)},
        "many_tokens": {"shape": (40,)},
    }
    hard_cases = {"all_tokens_alike": {"alike": True, "shape": (160,), "experts": 11}}
    more_shapes = {
        "no_leading_dimensions": {"shape": (), "k": 4},  # nothing in the router's gradient is exactly 0
        "three_leading_dimensions": {"shape": (2, 1, 3)},
    }
    representative = ("two_of_four", "three_of_five", "experts_without_tokens")
    grows = {"tokens": "tokens", "width": "d_model", "hidden width": "d_ff"}
    growth_sizes = (64, 160)
    timed = {"tokens": 384, "d_model": 32, "d_ff": 64, "experts": 8}
    time_limit = 40.0

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (2, 5), tokens: int = 0, d_model: int = 6, d_ff: int = 9, experts: int = 4,
        k: int = 2, alike: bool = False,
    ) -> Call:  # fmt: skip
        """Tokens whose choice is clear: those of many whose k-th logit is well above the next."""
        shape, init = (tokens,) if tokens else shape, {"d_model": d_model, "d_ff": d_ff, "num_experts": experts, "k": k}
        params = cls.params(d, init, w1=2.0, router=1.5)
        rows = torch.Size(shape).numel()
        tried = d.normal(30 * max(rows, 8), d_model)
        tried = tried[:1] + 0.02 * tried if alike else tried
        if k < experts:
            logits = (tried @ params["router.weight"].mT).sort(-1, descending=True).values
            gaps = logits[:, k - 1] - logits[:, k]
            tried = tried[gaps > GAP] if (gaps > GAP).sum() >= rows else tried[gaps.argsort(descending=True)]
        return Call({"x": tried[:rows].reshape(*shape, d_model)}, init, params)

    @fast
    def test_more_experts_cost_no_more(self, attempt: Attempt, draw: Draw) -> None:
        tokens, d_model, d_ff, k, made = 1024, 32, 48, 2, []
        for experts in (8, 16):
            call = self.call(draw, tokens=tokens, d_model=d_model, d_ff=d_ff, experts=experts, k=k)
            even = (torch.arange(tokens)[:, None] + torch.arange(k)) % experts  # every expert has as many tokens
            x = 0.1 * call.inputs["x"].scatter(-1, even, 10.0 + draw.normal(tokens, k))
            call = call.with_inputs(x=x).with_params(**{"router.weight": torch.eye(experts, d_model)})
            readings, needed = attempt.observed([self.prepare_call(attempt, call)], []), 6 * tokens * k * d_model * d_ff
            flops = readings["flops"] - 2 * tokens * d_model * experts
            if flops > 1.3 * needed:
                seen = f"{flops:,} FLOPs in products of {tokens:,} tokens with {experts} experts"
                seen += f", {k} for each token take {needed:,}"
                too_much("the products are those of k experts for each token", seen)
            made.append(readings["elements"])
        if made[1] > 1.6 * made[0]:
            too_much("twice as many experts cost the same", f"{made[0]:,} elements with 8 experts, {made[1]:,} with 16")
