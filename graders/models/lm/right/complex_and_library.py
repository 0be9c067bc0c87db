"""Object style: the library's norm and fused attention."""

# with attention/causal_attention
# with feedforward/swiglu/one_matrix_product


class Layer(nn.Module):
    def __init__(self, d_model, attn, ffn, eps, **kw):
        super().__init__()
        self.attn_norm, self.ffn_norm = (nn.RMSNorm(d_model, eps=eps, **kw) for _ in range(2))
        self.attn, self.ffn = attn, ffn

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class TransformerLM(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None, theta=1e4, eps=1e-5, **k
    ):
        super().__init__()
        self.limit = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **k)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            attn = CausalSelfAttention(d_model, num_heads, max_seq_len, theta, num_kv_heads, **k)
            self.layers.append(Layer(d_model, attn, SwiGLU(d_model, d_ff, **k), eps, **k))
        self.final_norm = nn.RMSNorm(d_model, eps=eps, **k)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **k)

    def forward(self, token_ids):
        if token_ids.shape[1] > self.limit:
            raise ValueError(f"at most {self.limit} tokens, got {token_ids.shape[1]}")
        x = self.token_embedding(token_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.final_norm(x))
