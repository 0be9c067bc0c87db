# ---
# jupyter:
#   dojo:
#     title: GPT-2
#     level: 3
#     minutes: 40
#     builds_on: [absolute_positions, layernorm, causal_attention, gelu_ffn]
#     sources:
#       - "Radford et al. 2019: Language models are unsupervised multitask learners"
#       - "Press and Wolf 2016: Using the output embedding to improve language models, arXiv:1608.05859"
# ---

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

# %% [markdown] tags=["contract"]
# - **State dict.** Exactly these keys with `.weight` and `.bias`, `lm_head.weight` among them, and no buffers: a strict
#   `load_state_dict` takes the checkpoint as it is.
# - **Tied.** Head and embedding are one parameter: counted once, with one gradient, after loading and `.to(dtype)` too.
# - **Half precision.** Softmax and LayerNorm's statistics in float32, as `F.scaled_dot_product_attention` and
#   `F.layer_norm` have them.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call; more than `max_len` tokens in a
#   row.

# %% [markdown] tags=["hint"]
# Write from the outside in, and choose attribute names from the table of keys: the dots in a name are the modules in
# modules. `transformer` is a module of its own, `h` an `nn.ModuleList`.

# %% [markdown] tags=["hint"]
# The `c_` layers are no `nn.Linear`, whose weight is `(out, in)`. `F.linear(x, self.weight.T, self.bias)` multiplies by
# a view of it.

# %% [markdown] tags=["hint"]
# `self.c_attn(x).chunk(3, dim=-1)`, split each into heads, `F.scaled_dot_product_attention(q, k, v, is_causal=True)`,
# merge, `c_proj`. The tie is an assignment: `self.lm_head.weight = self.transformer.wte.weight`.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
class Conv1D(nn.Module):
    """A linear layer whose weight is (in, out), as OpenAI stored it."""

    def __init__(self, d_in: int, d_out: int, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_in, d_out, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(d_out, device=device, dtype=dtype))

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        return F.linear(x, self.weight.T, self.bias)


class Attention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        super().__init__()
        self.num_heads = num_heads
        self.c_attn = Conv1D(d_model, 3 * d_model, device=device, dtype=dtype)
        self.c_proj = Conv1D(d_model, d_model, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        q, k, v = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in (q, k, v))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(heads.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    def __init__(self, d_model: int, *, device=None, dtype=None):
        super().__init__()
        self.c_fc = Conv1D(d_model, 4 * d_model, device=device, dtype=dtype)
        self.c_proj = Conv1D(4 * d_model, d_model, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        super().__init__()
        self.ln_1 = nn.LayerNorm(d_model, eps=1e-5, device=device, dtype=dtype)
        self.attn = Attention(d_model, num_heads, device=device, dtype=dtype)
        self.ln_2 = nn.LayerNorm(d_model, eps=1e-5, device=device, dtype=dtype)
        self.mlp = MLP(d_model, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class Transformer(nn.Module):
    """All but the head: from ids to what it reads."""

    def __init__(self, vocab_size: int, max_len: int, d_model: int, num_layers: int, num_heads: int, **kind):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d_model, **kind)
        self.wpe = nn.Embedding(max_len, d_model, **kind)
        self.h = nn.ModuleList(Block(d_model, num_heads, **kind) for _ in range(num_layers))
        self.ln_f = nn.LayerNorm(d_model, eps=1e-5, **kind)

    def forward(self, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq d_model"]:
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


### END SOLUTION


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
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        super().__init__()
        self.max_len = max_len
        self.transformer = Transformer(vocab_size, max_len, d_model, num_layers, num_heads, device=device, dtype=dtype)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The tie, which `to_empty` cuts, and OpenAI's initial values."""
        self.lm_head.weight = self.transformer.wte.weight
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 1:
                nn.init.ones_(parameter)
            else:  # two branches a layer are added to the residual stream
                branches = 2 * len(self.transformer.h) if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, std=0.02 / math.sqrt(branches))
        ### END SOLUTION

    def forward(self, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        """Logits for the token after each position, from this and the earlier tokens."""
        ### BEGIN SOLUTION
        if ids.shape[1] > self.max_len:
            raise ValueError(f"{ids.shape[1]} tokens in a row, but the model was built for max_len {self.max_len}")
        return self.lm_head(self.transformer(ids))
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# - **`(in, out)`** is TensorFlow's layout. `self.weight.T` is a view, and the product reads it as fast. With square
#   weights, as in the `c_proj` of attention, nothing but the values tells that the layout is wrong.
# - **One parameter under two names.** `named_parameters` gives it once, a state dict twice, and gradients of both uses
#   add up. `to_empty` makes two of it: tie again before loading.
# - **Initial values.** The stream adds up $2L$ branches; by $1/\sqrt{2L}$ its variance does not grow with the depth. A
#   deviation of 0.02 also keeps the first logits small: `nn.Embedding` starts with 1, and as a head that is a loss of
#   hundreds.
#
# **What it costs.** $12 d^2$ parameters a layer, and $24 n d^2 + 4 n^2 d$ FLOPs a layer and text. GPT-2 small takes
# 0.29 TFLOPs for 1,024 tokens, of which the head is 27 percent, and attention's scores and means 13. The head is also
# 31 percent of the parameters, and its logits, 206 MB in float32 for 1,024 tokens, are the largest tensor.
#
# ## The other formulation
#
# nanoGPT has `nn.Linear` everywhere and transposes the four `c_` weights once, as it loads the checkpoint. It also pads
# the vocabulary to 50,304, a multiple of 64, which tensor cores like better; the added rows are never targets.
#
# ## The usual mistakes
#
# - The exact GELU, `F.gelu(x)`: an activation is off by at most 0.0005, and the model still writes well.
# - `c_attn` split into heads first and then into queries, keys and values: that is the layout of GPT-NeoX and BLOOM.
# - The norms of GPT-1, after the sum, or no `ln_f`.
# - A causal mask registered as a buffer and saved: the strict load fails. Hugging Face's old checkpoints hold one,
#   `attn.bias`.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many million parameters has a GPT-2 of `layers` layers and width `width`: 50,257 tokens, 1,024 positions?
#
# - A layer: $d \cdot 3d + d \cdot d + 2 \cdot 4 d^2 = 12 d^2$ weights, 9 d biases, 4 d in its norms.
# - The embeddings have $51{,}281\, d$, the last norm $2 d$; the head costs nothing.
# - 12 layers of 768 are 124 million, 48 of 1,600 are 1,558 million. Untied the small one would have 163 million.
#
# Answer: `(51281 * width + layers * (12 * width**2 + 13 * width) + 2 * width) / 1e6` million, within 3 %. Settings:
# `layers` 12, 24, 48; `width` 768, 1024, 1600.
#
# Source: transformers, GPT-2, https://huggingface.co/docs/transformers/model_doc/gpt2.
#
# ### How many MB is the KV cache of a full context of 1,024 tokens in float16, with `layers` layers of width `width`?
#
# - A key and a value of `width` for each token and layer, two bytes a number: every head has its own.
# - GPT-2 small: 36,864 bytes a token, 38 MB. The weights are 249 MB: at seven full contexts the cache is larger.
#
# Answer: `4 * layers * width * 1024 / 1e6` MB, within 5 %. Settings: `layers` 12, 24, 48; `width` 768, 1024, 1600.
#
# Source: Shazeer 2019, arXiv:1911.02150.
#
# ### Why pre-norm, and why is there a last norm?
#
# - The stream is a sum that no norm interrupts: gradients reach every layer, and training needs less warmup.
# - So nothing has normalized the sum that the head reads. Its variance grows with the layers, and so would the logits.
# - GPT-1 had its norms after each sum, and needed no last one.
#
# Source: Xiong et al. 2020, arXiv:2002.04745.
#
# ### When are head and embedding tied, and when not?
#
# - Small models: the table is 31 percent of GPT-2 small. Of 70 billion parameters it is 1.5 percent, and Llama unties.
# - Every token trains its row twice, as input and as target, which helps rare tokens.
# - The two uses want other scales: the original Transformer multiplied its embeddings by $\sqrt d$ for that.
# - Across pipeline stages the first and the last must exchange the gradient of the shared table.
#
# Source: Press and Wolf 2016, arXiv:1608.05859.
