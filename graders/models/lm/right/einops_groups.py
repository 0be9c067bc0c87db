"""The mean of squares by einops, an own backward in SwiGLU, branches in a dict."""

# with attention/causal_attention
# with basics/rmsnorm/einops_reduce
# with feedforward/swiglu/einops_and_own_backward


class TransformerLM(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None, theta=1e4, eps=1e-5, **k
    ):
        super().__init__()
        norm, attention = lambda: RMSNorm(d_model, eps, **k), (d_model, num_heads, max_seq_len, theta, num_kv_heads)
        self.max_seq_len, self.token_embedding = max_seq_len, nn.Embedding(vocab_size, d_model, **k)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            parts = {"attn": CausalSelfAttention(*attention, **k), "ffn": SwiGLU(d_model, d_ff, **k)}
            self.layers.append(nn.ModuleDict({"attn_norm": norm(), "ffn_norm": norm(), **parts}))
        self.final_norm = norm()
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **k)

    def forward(self, token_ids):
        if token_ids.shape[1] > self.max_seq_len:
            raise ValueError(f"sequence length {token_ids.shape[1]} exceeds max_seq_len {self.max_seq_len}")
        x = self.token_embedding(token_ids)
        for layer in self.layers:
            for branch in ("attn", "ffn"):
                x = x + layer[branch](layer[f"{branch}_norm"](x))
        return self.lm_head(self.final_norm(x))
