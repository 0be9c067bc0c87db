# %% [markdown]
# # GPT-2
#
# $$x^{(0)} = W_{te}[\mathrm{ids}] + W_{pe}[0 \dots n-1], \qquad
# h = x^{(l)} + \mathrm{attn}\big(\mathrm{ln}_1(x^{(l)})\big), \qquad
# x^{(l+1)} = h + \mathrm{mlp}\big(\mathrm{ln}_2(h)\big)$$
#
# $$\mathrm{logits} = \mathrm{ln}_f\big(x^{(L)}\big)\, W_{te}^\top$$
#
# **Write** `GPT2(vocab_size, max_len, d_model, num_layers, num_heads, *, device=None, dtype=None)`, GPT-2 as OpenAI
# published it, without dropout. `forward(ids)` takes `(batch, seq)` and returns logits `(batch, seq, vocab_size)`. It
# loads the state dict of Hugging Face's `GPT2LMHeadModel`:
#
# ```
# transformer.wte, transformer.wpe             embeddings of tokens and positions
# transformer.h.{i}.ln_1, ln_2                 LayerNorm
# transformer.h.{i}.attn.c_attn, attn.c_proj   (d_model, 3 * d_model), (d_model, d_model)
# transformer.h.{i}.mlp.c_fc, mlp.c_proj       (d_model, 4 * d_model), (4 * d_model, d_model)
# transformer.ln_f                             LayerNorm
# lm_head.weight                               is transformer.wte.weight
# ```
#
# Attention is causal; the GELU between `c_fc` and `c_proj` is the tanh form; `eps` is 1e-5. All layers but embeddings
# and head have biases. The four `c_` weights are `(in, out)`: $y = x W + b$. `c_attn` gives queries, keys and values in
# this order, each with its heads side by side.
#
# No operation of PyTorch is forbidden.
#
# **Example.** With 50,257 tokens, 1,024 positions, 12 layers and `d_model = 768` there are 38,597,376 + 786,432 + 12 ·
# 7,087,872 + 1,536 = 124,439,808 parameters: GPT-2 small.
#
# **Builds on** absolute_positions, layernorm, causal_attention, gelu_ffn. **Sources:** Radford et al. 2019: Language
# models are unsupervised multitask learners; Press and Wolf 2016: Using the output embedding to improve language
# models, [arXiv:1608.05859](https://arxiv.org/abs/1608.05859).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: State dict, Tied, Half precision, Errors</summary>
#
# - **State dict.** Exactly these keys with `.weight` and `.bias`, `lm_head.weight` among them, and no buffers: a strict
#   `load_state_dict` takes the checkpoint as it is.
# - **Tied.** Head and embedding are one parameter: counted once, with one gradient, after loading and `.to(dtype)` too.
# - **Half precision.** Softmax and LayerNorm's statistics in float32, as `F.scaled_dot_product_attention` and
#   `F.layer_norm` have them.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call; more than `max_len` tokens in a
#   row.
#
# </details>

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class GPT2(nn.Module):
    """GPT-2: learned positions, pre-norm blocks of causal attention and GELU, and a head that is the embedding.

    Loads the state dict of Hugging Face's GPT2LMHeadModel. Raises ValueError for heads that do not divide, and for more
    than max_len tokens. Radford et al. 2019.
    """

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        *,
        device=None,
        dtype=None,
    ):
        raise NotImplementedError

    def forward(self, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        """Logits for the token after each position, from this and the earlier tokens."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gpt2")
