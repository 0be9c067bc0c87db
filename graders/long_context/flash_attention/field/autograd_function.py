"""As memory-efficient attention in PyTorch: sums in place, and a backward that recomputes each block."""

import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, bucket_size):
        acc_dtype = torch.promote_types(q.dtype, torch.float32)
        o = q.new_zeros(*q.shape[:-1], v.shape[-1], dtype=acc_dtype)
        row_maxes = q.new_full((*q.shape[:-1], 1), -torch.finfo(acc_dtype).max, dtype=acc_dtype)
        row_sums = torch.zeros_like(row_maxes)
        scale, offset = q.shape[-1] ** -0.5, k.shape[-2] - q.shape[-2]
        for ind, (kc, vc) in enumerate(zip(k.split(bucket_size, dim=-2), v.split(bucket_size, dim=-2))):
            w = (q @ kc.transpose(-2, -1)).to(acc_dtype).mul_(scale)
            if causal:
                future = w.new_ones(w.shape[-2:], dtype=torch.bool).triu(offset - ind * bucket_size + 1)
                w.masked_fill_(future, -torch.finfo(w.dtype).max)
            new_maxes = torch.maximum(w.amax(dim=-1, keepdim=True), row_maxes)
            exp_w, diff = w.sub_(new_maxes).exp_(), (row_maxes - new_maxes).exp_()
            row_sums.mul_(diff).add_(exp_w.sum(dim=-1, keepdim=True))
            o.mul_(diff).add_(exp_w.to(vc.dtype) @ vc)
            row_maxes = new_maxes
        o, lse = (o / row_sums).to(q.dtype), row_maxes + row_sums.log()
        ctx.args = causal, scale, offset, bucket_size
        ctx.save_for_backward(q, k, v, o, lse)
        return o, lse.squeeze(-1)

    @staticmethod
    def backward(ctx, do, dlse):
        (causal, scale, offset, bucket_size), (q, k, v, o, lse) = ctx.args, ctx.saved_tensors
        dq, dks, dvs = torch.zeros_like(q, dtype=lse.dtype), [], []
        delta = (do.to(lse.dtype) * o).sum(dim=-1, keepdim=True) - dlse.unsqueeze(-1)
        for ind, (kc, vc) in enumerate(zip(k.split(bucket_size, dim=-2), v.split(bucket_size, dim=-2))):
            p = torch.exp((q @ kc.transpose(-2, -1)).to(lse.dtype) * scale - lse)
            if causal:
                p = p.tril(offset - ind * bucket_size)
            ds = (p * (do @ vc.transpose(-2, -1) - delta) * scale).to(q.dtype)
            dq.add_(ds @ kc)
            dks.append(ds.transpose(-2, -1) @ q)
            dvs.append(p.to(do.dtype).transpose(-2, -1) @ do)
        return dq.to(q.dtype), torch.cat(dks, dim=-2), torch.cat(dvs, dim=-2), None, None


def flash_attention(q, k, v, causal=False, block_size=64):
    return FlashAttentionFunction.apply(q, k, v, causal, block_size)
