# %% [markdown]
# # Decoding, from greedy to speculative
#
# One file grows from a greedy loop to a step of speculative decoding. A causal language model is given, and stays as
# it is: `model(ids)` takes int64 `(batch, seq)` and gives logits `(batch, seq, vocab)`. It has no cache. All prompts of
# a batch have the same length.
#
# **Builds on** sampling, generate, speculative. **Sources:** Holtzman et al. 2019: The Curious Case of Neural Text
# Degeneration (top-p), [arXiv:1904.09751](https://arxiv.org/abs/1904.09751); Leviathan et al. 2022: Fast Inference from
# Transformers via Speculative Decoding, [arXiv:2211.17192](https://arxiv.org/abs/2211.17192).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 8 min
#
# "You have a model that gives logits. Write the loop that continues a batch of prompts greedily."
#
# `ids` are the prompts `(batch, seq)`; the result is `(batch, max_new_tokens)`.
#
# ```python
# def decode(model, ids, max_new_tokens):
#     """Continue the prompts `ids (batch, seq)`, and give the new tokens, `(batch, max_new_tokens)`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Result, Graph, Cost</summary>
#
# - **Result.** The new ids alone, int64; none where none are asked for. `ids` is left as it was.
# - **Graph.** None: the model runs without autograd.
# - **Cost.** One call of the model a token, for the whole batch. No loop over rows or the vocabulary, at any stage.
#
# </details>

# %%
import torch
import torch.nn.functional as F


# %%
def decode(model, ids, max_new_tokens):
    """Continue the prompts `ids (batch, seq)`, and give the new tokens, `(batch, max_new_tokens)`."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("decoding_ladder")
