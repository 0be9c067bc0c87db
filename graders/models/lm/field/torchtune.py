"""torchtune: a TransformerDecoder of self-attention layers, each with its cache of rotations."""

# with attention/causal_attention/torchtune
# with basics/rmsnorm/llama
# with feedforward/swiglu/torchtune


class TransformerSelfAttentionLayer(nn.Module):
    def __init__(self, embed_dim, hidden_dim, eps, attn, **kw):
        super().__init__()
        self.attn, self.ffn = attn, SwiGLU(embed_dim, hidden_dim, **kw)
        self.attn_norm, self.ffn_norm = RMSNorm(embed_dim, eps, **kw), RMSNorm(embed_dim, eps, **kw)

    def forward(self, x):
        h = self.attn_norm(x)
        attn_out = self.attn(h)
        h = attn_out + x
        mlp_out = self.ffn(self.ffn_norm(h))
        return h + mlp_out


class TransformerLM(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None, theta=1e4, eps=1e-5, **k
    ):
        super().__init__()
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **k)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            attn = CausalSelfAttention(d_model, num_heads, max_seq_len, theta, num_kv_heads, **k)
            self.layers.append(TransformerSelfAttentionLayer(d_model, d_ff, eps, attn, **k))
        self.final_norm = RMSNorm(d_model, eps, **k)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **k)

    def forward(self, tokens):
        seq_len = tokens.shape[1]
        if seq_len > self.max_seq_len:
            raise ValueError(f"seq_len ({seq_len}) of input tensor should be smaller than {self.max_seq_len}")
        h = self.token_embedding(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.lm_head(self.final_norm(h))
