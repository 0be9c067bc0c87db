"""Llama: complex rotations, key heads repeated, an additive causal mask; each attention has its `freqs_cis`."""

# with attention/causal_attention/llama
# with basics/rmsnorm/llama
# with feedforward/swiglu


class TransformerBlock(nn.Module):
    def __init__(self, dim, n_heads, hidden_dim, max_seq_len, n_kv_heads, theta, norm_eps, **kw):
        super().__init__()
        self.attn = CausalSelfAttention(dim, n_heads, max_seq_len, theta, n_kv_heads, **kw)
        self.ffn = SwiGLU(dim, hidden_dim, **kw)
        self.attn_norm, self.ffn_norm = RMSNorm(dim, norm_eps, **kw), RMSNorm(dim, norm_eps, **kw)

    def forward(self, x):
        h = x + self.attn(self.attn_norm(x))
        return h + self.ffn(self.ffn_norm(h))


class TransformerLM(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None, theta=1e4, eps=1e-5, **k
    ):
        super().__init__()
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **k)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(TransformerBlock(d_model, num_heads, d_ff, max_seq_len, num_kv_heads, theta, eps, **k))
        self.final_norm = RMSNorm(d_model, eps, **k)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **k)

    def forward(self, tokens):
        if tokens.shape[1] > self.max_seq_len:
            raise ValueError(f"{tokens.shape[1]} tokens, but freqs_cis has {self.max_seq_len} positions")
        h = self.token_embedding(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.lm_head(self.final_norm(h))
