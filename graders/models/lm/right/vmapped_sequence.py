"""Attention of one sequence, norm of one vector, feed-forward of one token under vmap; angles in every call."""

# with attention/causal_attention/vmapped_entries
# with basics/rmsnorm/vmapped_vector
# with feedforward/swiglu/vmapped_token


class Residual(nn.Module):
    """A layer of named parts that is called like a function, so that layers make a sequence."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class TransformerLM(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None, theta=1e4, eps=1e-5, **k
    ):
        super().__init__()
        layer = lambda: Residual(
            attn_norm=RMSNorm(d_model, eps, **k),
            attn=CausalSelfAttention(d_model, num_heads, max_seq_len, theta, num_kv_heads, **k),
            ffn_norm=RMSNorm(d_model, eps, **k),
            ffn=SwiGLU(d_model, d_ff, **k),
        )
        self.max_seq_len, self.token_embedding = max_seq_len, nn.Embedding(vocab_size, d_model, **k)
        self.layers = nn.Sequential(*(layer() for _ in range(num_layers)))
        self.final_norm = RMSNorm(d_model, eps, **k)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **k)

    def forward(self, token_ids):
        if token_ids.shape[-1] > self.max_seq_len:
            raise ValueError(f"{token_ids.shape[-1]} tokens, at most {self.max_seq_len}")
        return self.lm_head(self.final_norm(self.layers(self.token_embedding(token_ids))))
