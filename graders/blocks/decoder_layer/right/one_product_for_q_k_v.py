"""Functional over bags of linear layers; projections of the same input are one product over stacked weights."""

# with blocks/encoder_layer/one_product_for_q_k_v


class DecoderLayer(_Layer):
    attentions, norms = ("self_attn", "cross_attn"), ("self_attn_norm", "cross_attn_norm", "ffn_norm")

    def forward(self, x, memory, memory_padding=None):
        a, c = self.self_attn, self.cross_attn
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        x = self.self_attn_norm(x + self.attend(a, past, *self.heads(x, a, "qkv")))
        seen = real(memory, memory_padding)
        x = self.cross_attn_norm(x + self.attend(c, seen, *self.heads(x, c, "q"), *self.heads(memory, c, "kv")))
        return self.ffn_norm(x + self.feed(x))
