"""The usual Llama: norm and softmax in float32, half-split rotation, keys repeated for their group."""

# with attention/causal_attention/rotate_half_of_permuted
# with basics/rmsnorm/llama
# with feedforward/swiglu


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, max_seq_len, num_kv_heads, theta, eps, **kw):
        super().__init__()
        self.attn_norm = RMSNorm(d_model, eps, **kw)
        self.attn = CausalSelfAttention(d_model, num_heads, max_seq_len, theta, num_kv_heads, **kw)
        self.ffn_norm = RMSNorm(d_model, eps, **kw)
        self.ffn = SwiGLU(d_model, d_ff, **kw)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class TransformerLM(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None, theta=1e4, eps=1e-5, **k
    ):
        super().__init__()
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **k)
        sizes = (d_model, num_heads, d_ff, max_seq_len, num_kv_heads, theta, eps)
        self.layers = nn.ModuleList([Layer(*sizes, **k) for _ in range(num_layers)])
        self.final_norm = RMSNorm(d_model, eps, **k)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **k)

    def forward(self, token_ids):
        t = token_ids.size(1)
        if t > self.max_seq_len:
            raise ValueError(f"sequence of {t} tokens exceeds max_seq_len={self.max_seq_len}")
        x = self.token_embedding(token_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.final_norm(x))
