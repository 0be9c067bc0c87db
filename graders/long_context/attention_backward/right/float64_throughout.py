import torch


def hidden(rows, columns, device):
    return ~torch.tril(torch.ones(rows, columns, device=device), diagonal=columns - rows).bool()


def attention_backward(q, k, v, out, lse, grad_out, causal=False):
    if causal and q.shape[-2] > k.shape[-2]:
        raise ValueError(f"more queries ({q.shape[-2]}) than keys ({k.shape[-2]}) with causal=True")
    names = q.dtype, k.dtype, v.dtype
    with torch.inference_mode():
        q, k, v, out, lse, grad_out = map(torch.Tensor.double, (q, k, v, out, lse, grad_out))
        q = q / q.shape[-1] ** 0.5
        exponent = q.matmul(k.mT) - lse[..., None]
        if causal:
            exponent = exponent + torch.zeros_like(exponent).masked_fill(
                hidden(*exponent.shape[-2:], q.device), -torch.inf
            )
        p = exponent.exp()
        dp = grad_out.matmul(v.mT)
        # the two halves of dS, each taken to the keys by itself
        d = torch.linalg.vecdot(grad_out, out)[..., None]
        ds = p * dp - p * d
        grads = ds.matmul(k) / k.shape[-1] ** 0.5, ds.mT.matmul(q), p.mT.matmul(grad_out)
    return tuple(g.to(name) for g, name in zip(grads, names))
