"""Functional: the modules only hold weights, and functions run the model by einsum in float32 or float64."""

# with blocks/block/einsum


class TransformerLM(Weights):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None, theta=1e4, eps=1e-5, **k
    ):
        size, kv_heads = d_model // num_heads, num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads or num_heads % kv_heads or size % 2:
            raise ValueError(f"{d_model} by {num_heads} by {kv_heads} heads, head_dim {size}")
        layers = {str(i): layer_shapes(d_model, d_ff, size * kv_heads) for i in range(num_layers)}
        table = (vocab_size, d_model)
        super().__init__({"token_embedding": table, "layers": layers, "final_norm": (d_model,), "lm_head": table}, **k)
        self.num_heads, self.max_seq_len, self.eps = num_heads, max_seq_len, eps
        angle = torch.arange(max_seq_len).double()[:, None] * theta ** (-torch.arange(0, size, 2).double() / size)
        c, s = angle.cos(), angle.sin()
        self.table = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)

    def forward(self, token_ids):
        seq, embedding = token_ids.shape[-1], self.token_embedding.weight
        if seq > self.max_seq_len:
            raise ValueError(f"seq {seq} > max_seq_len {self.max_seq_len}")
        x = embedding[token_ids.long()].to(torch.promote_types(embedding.dtype, torch.float32))
        turns = self.table[:seq].to(x)
        turn = lambda t: torch.einsum("tpij,bthpj->bthpi", turns, t.unflatten(-1, (-1, 2))).flatten(-2)
        causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()
        for layer in self.layers.children():
            x = x + attention(norm(x, layer.attn_norm, self.eps), layer.attn, self.num_heads, causal, turn)
            x = x + swiglu(norm(x, layer.ffn_norm, self.eps), layer.ffn)
        return linear(norm(x, self.final_norm, self.eps), self.lm_head).to(embedding.dtype)
