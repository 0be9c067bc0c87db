# ---
# jupyter:
#   dojo:
#     title: Transformer language model
#     level: 4
#     minutes: 40
#     builds_on: [rope, rmsnorm, gqa, swiglu, causal_attention, block]
#     sources:
#       - "Touvron et al. 2023: LLaMA, arXiv:2302.13971"
#       - "Su et al. 2021: RoFormer, arXiv:2104.09864"
# ---

# %% [markdown]
# # Transformer language model
#
# $$x^{(0)} = E[\mathrm{ids}], \qquad
# h = x^{(l)} + \mathrm{attn}_l\big(\mathrm{norm}(x^{(l)})\big), \qquad
# x^{(l+1)} = h + \mathrm{ffn}_l\big(\mathrm{norm}(h)\big)$$
#
# $$\mathrm{logits} = W_{\mathrm{head}}\; \mathrm{norm}\big(x^{(L)}\big)$$
#
# The whole of Llama: embedding, pre-norm blocks, a last norm, and a projection to the vocabulary.
#
# **Write** `TransformerLM(vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None,
# theta=10000.0, eps=1e-5, *, device=None, dtype=None)`. `forward(token_ids)` takes int32 or int64 `(batch, seq)` and
# returns logits `(batch, seq, vocab_size)`. There are no biases:
#
# ```
# token_embedding.weight, lm_head.weight        (vocab_size, d_model)
# layers.{i}.attn: q_proj.weight, o_proj.weight (d_model, d_model)
#                  k_proj.weight, v_proj.weight (num_kv_heads * head_dim, d_model)
# layers.{i}.ffn:  w1.weight, w3.weight         (d_ff, d_model)
#                  w2.weight                    (d_model, d_ff)
# layers.{i}.attn_norm.weight, ffn_norm.weight, and final_norm.weight   (d_model,)
# ```
#
# Attention is causal and grouped as in **gqa**, with **rope** on queries and keys; the feed-forward layer is that of
# **swiglu**, the norm that of **rmsnorm**. The stub holds only the model: write its parts too, or import your own. No
# operation of PyTorch is forbidden.
#
# **Example.** Take `d_model = 2`, a vocabulary of 3, and one head. Let every `o_proj` and `w2` be zero, so that the
# layers change nothing. Token 0 has the embedding $(3, 4)$. Its root mean square is $\sqrt{12.5} = 3.536$, so the last
# norm gives $(0.849, 1.131)$. With `lm_head.weight` = `[[1, 0], [0, 1], [1, 1]]` its logits are
# `[0.849, 1.131, 1.980]`.

# %% [markdown] tags=["contract"]
# - **Causal.** Logits at a position depend on this and earlier tokens alone, however low the scores are.
# - **Key heads.** Query head `h` reads key head `h // (num_heads // num_kv_heads)`; `num_kv_heads` None means
#   `num_heads`.
# - **Positions.** They are `0 ... seq - 1`. Of each head the pair `(2i, 2i + 1)` is rotated, by
#   $p \cdot \theta^{-2i/\text{head\_dim}}$. In half precision positions stay exact: bfloat16 counts to 256, float16 to
#   2,048.
# - **Head.** `lm_head` is not tied to the embedding.
# - **Norms.** Their weights start as ones; `eps` reaches all.
# - **Half precision.** Norms and softmax in float32. Rotated queries and keys, scores, weights and the gated product
#   may each be rounded.
# - **Errors.** Heads that do not divide, at construction or at the call; more than `max_seq_len` tokens in a row.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)  # an embedding, and layers that change nothing
# root = math.sqrt(sum(v * v for v in x) / len(x))
# normal = [v / root for v in x]
# head = ((1, 0), (0, 1), (1, 1))
# print("logits", [round(sum(w * v for w, v in zip(row, normal)), 3) for row in head])

# %% [markdown] tags=["hint"]
# Write the model from the outside in: first `TransformerLM.forward` in five lines, then the block, then its parts.
# Choose attribute names from the table of parameters: the dots in a name are the modules in modules.

# %% [markdown] tags=["hint"]
# The order in the attention: project, split heads, **rotate**, attend, merge heads, project.
# Make the cosines and sines once for each forward, and hand them down to the layers.

# %% [markdown] tags=["hint"]
# `F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)` does the scale, the mask, the softmax and
# the groups. The angles are one outer product, `torch.arange(seq)` by the frequencies, in float32 on the device of the
# ids, whatever the dtype of the model.

# %% [markdown] tags=["idea"]
# Given the tokens so far, which one comes next? A language model answers with a score for each token it knows. Every
# token id picks a row of a table, in Llama 3 8B one of 128,256 rows of 4,096 numbers. From there that vector is a
# stream of its own, and 32 blocks add to it. Only attention looks sideways, and only at earlier tokens, so that no
# stream sees its answer. At the end each stream is scored against a vector for each token.
#
# So one pass answers at every position at once, four times in the figure. Training learns from all answers, generation
# uses the last.
#
# The parts are katas of their own. New is how they fit: where positions come in, and a last norm before the scores. A
# first check: an untrained model finds all tokens about equally likely, a loss near $\ln 128256 = 11.8$.

# %% tags=["active-ipynb", "figure"]
# """Four columns, the tokens of "the cat sat on", from embedding over two blocks to the head. Solid lines go straight
# up. Dashed ones lead into a block from earlier tokens alone. On top each column predicts the token of the next."""
# import matplotlib.pyplot as plt
#
# axes, words = plt.figure(figsize=(7.6, 3.6)).gca(), ("the", "cat", "sat", "on", "the")
# for at in range(4):
#     for earlier in range(at):
#         axes.plot([earlier, at], [0, 1], "C1--", [earlier, at], [1, 2], "C1--", linewidth=1.2)
#     axes.plot([at] * 4, range(4), "C0-o")
#     axes.text(at, 3.2, f"→ {words[at + 1]}", ha="center")
# axes.set_xticks(range(4), words[:4])
# axes.set_yticks(range(4), ("embedding", "block 1", "block 2", "norm, head"))
# axes.set(xlabel="token that is read; on top the one predicted", ylabel="stage", xlim=(-0.4, 3.4), ylim=(-0.3, 3.6))
# axes.legend(axes.lines[:2], ("residual stream", "attention"), loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **From the stream to the scores.** `x` is one token's stream after the last block. The norm has no weight here.

# %% tags=["active-ipynb", "step"]
# def scores(x: Float[Tensor, "d"], head: Float[Tensor, "vocab d"]) -> Float[Tensor, "vocab"]:
#     """The logit of each token of the vocabulary."""
#     ### BEGIN SOLUTION
#     return head @ F.rms_norm(x, x.shape)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# scores([1.0, 7.0], [[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]) = [0.2, 1.8, -1.4]
# scores([1.0, 7.0], [[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]) ≠ [1, 9, -7]: the last norm is missing
# scores([1.0, 7.0], [[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]) ≠ [0.16247, 0.80473, 0.0328]: a softmax; the loss takes that
# scores([1.0, 7.0], [[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]) ≠ [0.14142, 1.27279, -0.98995]: a length of 1
# scores([1.0, 7.0], [[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]) ≠ [0.15133, 1.36197, -1.05931]: normalized after the head

# %% [markdown] tags=["step"]
# **The speeds of one head.** RoPE rotates pair $i$ of a head by $\theta^{-2i/\text{head\_dim}}$ a token. Give all.

# %% tags=["active-ipynb", "step"]
# def speeds(d_model: int, num_heads: int, theta: float) -> list[float]:
#     """Radians a token for each pair of a head."""
#     ### BEGIN SOLUTION
#     return [theta ** (-pair * num_heads / d_model) for pair in range(0, d_model // num_heads, 2)]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# speeds(12, 3, 100.0) = [1, 0.1]
# speeds(12, 3, 100.0) ≠ [1, 0.46416, 0.21544, 0.1, 0.04642, 0.02154]: the pairs of d_model; a head has its own two
# speeds(12, 3, 100.0) ≠ [1, 0.46416]: d_model in the exponent, where the width of a head belongs
# speeds(12, 3, 100.0) ≠ [1, 0.31623, 0.1, 0.03162]: a speed for each entry; a pair has one
# speeds(12, 3, 100.0) ≠ [1, 0.31623]: the exponent is -i / head_dim, half of what it is
# speeds(12, 3, 100.0) ≠ [1, 10]: the sign of the exponent; later pairs are slower

# %% [markdown] tags=["experiment"]
# The model learns a line by heart. Make `num_layers` 0, so that each letter sees itself alone: where does it fail, and
# why there? Why is the first loss near $\ln 14 = 2.6$? Read on in Touvron et al. 2023, arXiv:2302.13971, section 2.2.

# %% tags=["active-ipynb", "experiment"]
# num_layers, text = 2, "to be or not to be, that is the question"
# letters = sorted(set(text))
# ids = torch.tensor([[letters.index(letter) for letter in text]])
# model = TransformerLM(len(letters), 32, num_layers, 4, 64, 64)
# for step in range(41):
#     logits = model(ids[:, :-1])[0]
#     loss = F.cross_entropy(logits, ids[0, 1:])
#     loss.backward()
#     for weight in model.parameters():
#         weight.data -= 0.01 * weight.grad.sign()
#         weight.grad = None
#     if step % 10 == 0:
#         print(f"{loss.item():.2f}  {text[0]}{''.join(letters[n] for n in logits.argmax(-1))}")


# %%
### BEGIN SOLUTION
def angle_table(d_k: int, seq: int, theta: float, device: torch.device) -> Float[Tensor, "seq pairs"]:
    """The angle of each position and pair, in float32 whatever the dtype of the model."""
    position = torch.arange(seq, dtype=torch.float32, device=device)
    frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float32, device=device) / d_k)
    return torch.outer(position, frequency)


def split_heads(x: Float[Tensor, "*batch seq dim"], num_heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def rotate(x: Float[Tensor, "*batch seq dim"], cos: Tensor, sin: Tensor) -> Float[Tensor, "*batch seq dim"]:
    """RoPE on neighboring pairs, in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    even, odd = wide[..., 0::2], wide[..., 1::2]
    rotated = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return rotated.flatten(-2).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)
        return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)


class CausalAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, *, device=None, dtype=None):
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        kv_dim = num_kv_heads * (d_model // num_heads)
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch seq d_model"], cos: Tensor, sin: Tensor) -> Tensor:
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_kv_heads)
        v = split_heads(self.v_proj(x), self.num_kv_heads)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        merged = heads.transpose(-3, -2).flatten(-2)
        return self.o_proj(merged)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int, *, device=None, dtype=None):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, d_ff: int, eps: float, *, device=None, dtype=None
    ):
        super().__init__()
        self.attn_norm = RMSNorm(d_model, eps, device=device, dtype=dtype)
        self.attn = CausalAttention(d_model, num_heads, num_kv_heads, device=device, dtype=dtype)
        self.ffn_norm = RMSNorm(d_model, eps, device=device, dtype=dtype)
        self.ffn = SwiGLU(d_model, d_ff, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch seq d_model"], cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.attn_norm(x), cos, sin)
        x = x + self.ffn(self.ffn_norm(x))
        return x


### END SOLUTION


# %%
class TransformerLM(nn.Module):
    """A Llama: pre-norm blocks of causal grouped-query attention with RoPE, and SwiGLU. The head is not tied.

    Norms, rotation and softmax are computed in float32 at least. Raises ValueError for heads that do not divide, and
    for more than max_seq_len tokens. Touvron et al. 2023, arXiv:2302.13971.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_seq_len: int,
        num_kv_heads: int | None = None,
        theta: float = 10000.0,
        eps: float = 1e-5,
        *,
        device=None,
        dtype=None,
    ):
        ### BEGIN SOLUTION
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        super().__init__()
        self.max_seq_len = max_seq_len
        self.head_dim = d_model // num_heads
        self.theta = theta
        self.token_embedding = nn.Embedding(vocab_size, d_model, device=device, dtype=dtype)
        self.layers = nn.ModuleList(
            Block(d_model, num_heads, num_kv_heads, d_ff, eps, device=device, dtype=dtype) for _ in range(num_layers)
        )
        self.final_norm = RMSNorm(d_model, eps, device=device, dtype=dtype)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(self, token_ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        """Logits for the token after each position, from this and the earlier tokens."""
        ### BEGIN SOLUTION
        seq = token_ids.shape[-1]
        if seq > self.max_seq_len:
            raise ValueError(f"{seq} tokens in a row, but the model was built for max_seq_len {self.max_seq_len}")
        x = self.token_embedding(token_ids)
        angles = angle_table(self.head_dim, seq, self.theta, x.device)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.final_norm(x))
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Every part is a kata of its own. What is new is how they fit together.
#
# - **One table for all layers**, made in each forward: 8,192 positions of a head of 128 are 4 MB, microseconds beside a
#   forward. So nothing has to follow the model to another device, and no cast rounds it. A buffer with
#   `persistent=False` is the other usual form; `model.to(torch.bfloat16)` rounds it.
# - **RoPE stands after the head split**, because angles depend on the place within a head, not within `d_model`.
# - **The last norm** is needed because a pre-norm stack never normalizes its sum.
# - **Fused attention** computes the same as written-out attention, and never stores the `seq × seq` scores.
#
# **What it costs.** Two FLOPs for each weight and token, and $4 L n^2 d$ for the attention: 158 TFLOPs for 8,192 tokens
# of Llama 3 8B. Prefill is compute-bound: a TTFT of 0.16 s at least on an H100. Decoding is memory-bound: each step
# reads 15 GB of weights, a latency of 4.5 ms, and the KV cache of each sequence, 1.07 GB at 8,192 tokens. The logits of
# those tokens are 4.2 GB in float32.
#
# ## The other formulation: positions as an argument
#
# `forward(token_ids, positions=None)` is what serving and packing need: after a KV cache of 100 tokens the next one
# stands at 100, and with left padding each sequence starts elsewhere. The angles are
# then `positions[..., None].float() * frequency`, with an axis for the heads where positions are `(batch, seq)`. Who
# may attend to whom stays a matter of the mask: packed documents need one of blocks. RoPE sees distances alone, so
# documents that are kept apart by the mask need no restart at 0.
#
# **A Llama checkpoint** in the layout of Hugging Face pairs entries `(i, i + head_dim/2)`. Its scores are ours if the
# rows of `q_proj` and `k_proj` are permuted within each head, from halves to neighbors:
#
# `w.view(heads, 2, head_dim // 2, d_model).transpose(1, 2).reshape(heads * head_dim, d_model)`
#
# ## The usual mistakes
#
# - The last norm forgotten. The logits are far too large, and the model still trains, badly.
# - Rotating before the head split: head 0 gets all the fast angles, the last head all the slow ones.
# - A softmax at the end. `F.cross_entropy` wants logits.
# - Layers in a Python list: no parameters, and nothing moves to the GPU. Use `nn.ModuleList`.
# - The same block object in every layer, `[Block(...)] * num_layers`: they share all weights.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What loss do you expect before training, with a vocabulary of `vocab` tokens?
#
# - $\ln V$: with small logits every token is about equally likely.
# - Much more: the logits start too large. Less: the model sees its target.
#
# Answer: `log(vocab)`, within 2 %. Settings: `vocab` 32000, 50257, 128256.
#
# Source: Karpathy 2019, A recipe for training neural networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### How many GB are the logits of `tokens` tokens in float32, with a vocabulary of `vocab`?
#
# - Four bytes an entry, and their gradient as many again: often the largest tensors of a training step.
# - Cross-entropy needs float32: bfloat16 logits near 20 are 0.125 apart.
# - The loss can be taken chunk by chunk, so that the logits never exist at once. For sampling only the last position
#   needs any.
#
# Answer: `4 * tokens * vocab / 1e9` GB, within 5 %. Settings: `tokens` 8192, 32768; `vocab` 50257, 128256.
#
# Source: Wijmans et al. 2024, arXiv:2411.09009.
#
# ### How do you test that it is causal?
#
# - Change the last token: all earlier logits stay the same. Better, change each token in turn.
# - By gradients: the derivative of the logits at $t$ by the embedding at $t + 1$ is exactly 0.
# - Train on fresh random tokens: the loss cannot fall below $\ln V$. If it does, the target leaks.
#
# Source: Karpathy 2019, A recipe for training neural networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### The loss is a little too high. How do you find the bug?
#
# - Compare with a reference, layer by layer, on the same weights: the first difference names the part.
# - Usual suspects that still train: positions off by one, heads paired wrongly, no final norm, a target shifted twice,
#   dropout left on.
#
# Source: Karpathy 2019, A recipe for training neural networks, https://karpathy.github.io/2019/04/25/recipe/.
