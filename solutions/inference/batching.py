# ---
# jupyter:
#   dojo:
#     title: Continuous batching
#     level: 4
#     minutes: 40
#     builds_on: [generate, kv_cache]
#     sources:
#       - "Yu et al. 2022: Orca, a distributed serving system for Transformer-based generative models, https://www.usenix.org/conference/osdi22/presentation/yu"
#       - "Agrawal et al. 2024: Sarathi-Serve (chunked prefills), arXiv:2403.02310"
# ---

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

# %% [markdown] tags=["contract"]
# - **No overtaking.** If the first of the queue does not fit, none after it begins.
# - **Queue.** Its order is by arrival, of equal arrivals by index. `requests` may be listed in any order.
# - **Chunks.** A chunk takes all of the budget that is left, also of a prompt that would fit whole into a later step. A
#   request in the middle of its prompt holds a slot.
# - **Decode.** `new` tokens take `new - 1` decode steps of one token each, which count in the budget.
# - **Idle steps.** They are `[]`, those before the first arrival too. The list ends with the last step in which
#   something runs. The order within a step is free.
# - **Cost.** Time grows with the pairs returned, and not with the number of waiting requests in each step.
# - **Errors.** Without `chunked`, a prompt larger than `token_budget`.

# %% [markdown] tags=["hint"]
# Two collections are enough: a queue, and the running requests in the order they began. What must be known of a running
# one?

# %% [markdown] tags=["hint"]
# Keep two numbers for each running request: how many tokens it has to compute next, first its prompt and later always
# 1, and how many new tokens it still wants. When the first is down to 0, a new token is there.

# %% [markdown] tags=["hint"]
# A step has three loops. Running requests take `min(pending, budget)`. Then, while the head of the queue has arrived, a
# slot is free and the prompt fits, or `chunked` and any budget is left: it joins. At last the pairs of this step are
# booked, and what is finished leaves.

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
    ### BEGIN SOLUTION
    for index, (_, prompt, _) in enumerate(requests):
        if prompt > token_budget and not chunked:
            raise ValueError(f"request {index}: a prompt of {prompt} tokens is larger than token_budget {token_budget}")
    waiting = deque(sorted(range(len(requests)), key=lambda index: requests[index][0]))
    running: dict[int, int] = {}  # the tokens that a request has to compute next, in the order they began
    wanted = [new for _, _, new in requests]
    steps: list[list[tuple[int, int]]] = []
    while waiting or running:
        batch, budget = [], token_budget
        for index, pending in running.items():
            tokens = min(pending, budget)
            batch.append((index, tokens))
            budget -= tokens
        while waiting and budget and len(running) < num_slots:
            index = waiting[0]
            arrival, prompt, _ = requests[index]
            if arrival > len(steps) or (prompt > budget and not chunked):
                break
            waiting.popleft()
            running[index] = prompt
            chunk = min(prompt, budget)
            batch.append((index, chunk))
            budget -= chunk
        for index, tokens in batch:
            running[index] -= tokens
            if running[index] == 0:  # a new token is there, and is fed next
                running[index] = 1
                wanted[index] -= 1
            if wanted[index] == 0:
                del running[index]
        steps.append(batch)
    return steps
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **One number for both phases.** What a request computes next is its prompt, later one token. vLLM calls it
# `num_tokens - num_computed_tokens`, and its scheduler knows no prefill and no decode either.
#
# **No decode starves.** A request begins only while a token of budget is left for it, so never more run than the budget
# has tokens, and each gets at least one. Only the youngest can be in the middle of its prompt: it began last, and took
# all that was left.
#
# **The first token is free.** The step that ends a prompt gives logits at its last place. So `new` tokens take one pass
# over the prompt and `new - 1` steps.
#
# **What it costs.** $O(1)$ for each pair returned, plus $n \log n$ for the order. A slot of 1,000 tokens is 131 MB of
# KV cache in Llama 3 8B. The gain: 64 requests with 10 to 500 prompt tokens and 10 to 500 new ones on 8 slots, budget
# 2,048, take 2,024 steps. In batches of 8 that wait for their longest row it is 3,499; 8 slots allow no less than
# 1,906.
#
# ## The other formulation
#
# Sarathi keeps decodes and the one cut prompt apart: the budget less the number of decodes goes to the prompt. What is
# chosen is the same, as it is in the schedulers of vLLM and, first in, first out, of transformers.
#
# ## The usual mistakes
#
# - A request overtakes the head of the queue since it fits: a long prompt then waits as long as short ones arrive.
# - Decodes that do not count in the budget: the step is longer than it was meant to be.
# - The whole queue looked at in each step. 8,000 requests, two at a time, then take 1.3 s and not 0.01 s.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many steps does a prompt of `prompt` tokens take with chunks, budget `budget`, beside `decodes` decodes?
#
# - The decodes take one token each, and the prompt what is left.
# - 8,000 tokens, 512 and 32: 17 steps of 480. Without chunks one step of 8,000 tokens, and 32 users see their text
#   halt.
# - A smaller budget keeps decoding smooth, and the prompt's first token comes later.
#
# Answer: `ceil(prompt / (budget - decodes))` steps, within 2 %. Settings: `prompt` 8000, 32000; `budget` 512, 2048;
# `decodes` 32, 128.
#
# Source: Agrawal et al. 2024, section 4, arXiv:2403.02310.
#
# ### Why does static batching lose?
#
# - A batch lives as long as its longest row. With 10 and 500 new tokens in a batch of two, one slot is idle in 490 of
#   500 steps.
# - Who arrives a step late waits for the whole batch.
# - A step reads all weights whatever the batch: an idle slot is throughput given away.
#
# Source: Yu et al. 2022, Orca, section 3, https://www.usenix.org/conference/osdi22/presentation/yu.
#
# ### How many thousand tokens of KV cache fit beside `weights` GB of weights into `memory` GB, 131,072 bytes a token?
#
# - That is Llama 3 8B: 32 layers, 8 key heads of 128, bfloat16. On 80 GB beside 16 GB it is 488 thousand.
# - The scheduler of this kata counts slots and tokens of a step, and no memory: a real one begins a request only where
#   its blocks fit.
# - When they run out, the youngest request is preempted: its cache is swapped out, or dropped and computed again.
#
# Answer: `(memory - weights) * 1e9 / 131072 / 1e3` thousand, within 5 %. Settings: `memory` 80, 141, 192; `weights` 8,
# 16.
#
# Source: Kwon et al. 2023, section 4.5, arXiv:2309.06180.
#
# ### First come first served lets one long prompt block the queue. What would you measure, and what would you change?
#
# - Time to first token at p50 and p99, time between tokens, and throughput at the load where these still hold.
# - Letting short prompts overtake lowers the mean and starves long ones; priorities with age bound that.
# - Chunks bound what a long prompt does to decodes, and prefill on machines of its own takes it away from them.
#
# Source: Zhong et al. 2024, DistServe, arXiv:2401.09670.
