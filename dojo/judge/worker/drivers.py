"""What is done with an attempt's objects over several steps: our own loops, which hold no expected value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dojo.judge.protocol import Message

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
