# %% [markdown]
# # Continuous batching
#
# $$\sum_{r \in \mathrm{step}} \mathrm{tokens}_r \le \mathrm{token\_budget}, \qquad
# |\mathrm{running}| \le \mathrm{num\_slots}$$
#
# **Write** `schedule(requests, num_slots, token_budget, chunked=False)` in plain Python. A request is
# `(arrival, prompt, new)`: the step from which it may run, its prompt tokens, its new tokens. Return a list over steps:
# what runs in each, as pairs `(request index, tokens)`.
#
# In each step running requests come first, in the order they began: the rest of a prompt, or one token to decode. Then
# waiting ones begin, first come first served, while a slot and budget are left. With `chunked` a prompt may be cut,
# otherwise it runs whole.
#
# The step that ends a prompt gives the first new token. A finished request frees its slot for the next step.
#
# **Example.** `schedule([(0, 3, 2), (0, 4, 1)], 2, 5)`: 3 and 4 tokens are more than 5, so request 1 waits for step 1,
# where request 0 decodes: `[[(0, 3)], [(0, 1), (1, 4)]]`. With `chunked=True` it begins with what is left of step 0:
# `[[(0, 3), (1, 2)], [(0, 1), (1, 2)]]`.
#
# **Builds on** generate, kv_cache. **Sources:** Yu et al. 2022: Orca, a distributed serving system for
# Transformer-based generative models, https://www.usenix.org/conference/osdi22/presentation/yu; Agrawal et al. 2024:
# Sarathi-Serve (chunked prefills), [arXiv:2403.02310](https://arxiv.org/abs/2403.02310).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: No overtaking, Queue, Chunks, Decode, Idle steps, Cost, Errors</summary>
#
# - **No overtaking.** If the first of the queue does not fit, none after it begins.
# - **Queue.** Its order is by arrival, of equal arrivals by index. `requests` may be listed in any order.
# - **Chunks.** A chunk takes all of the budget that is left, also of a prompt that would fit whole into a later step. A
#   request in the middle of its prompt holds a slot.
# - **Decode.** `new` tokens take `new - 1` decode steps of one token each, which count in the budget.
# - **Idle steps.** They are `[]`, those before the first arrival too. The list ends with the last step in which
#   something runs. The order within a step is free.
# - **Cost.** Time grows with the pairs returned, and not with the number of waiting requests in each step.
# - **Errors.** Without `chunked`, a prompt larger than `token_budget`.
#
# </details>

# %%
from collections import deque
from collections.abc import Sequence


# %%
def schedule(
    requests: Sequence[tuple[int, int, int]], num_slots: int, token_budget: int, chunked: bool = False
) -> list[list[tuple[int, int]]]:
    """What runs in each step, as pairs of a request's index and its tokens.

    Raises ValueError for a prompt larger than token_budget that may not be cut. Yu et al. 2022, Orca; chunks as in
    Agrawal et al. 2024, arXiv:2403.02310.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("batching")
