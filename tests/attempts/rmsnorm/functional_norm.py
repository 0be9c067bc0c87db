import torch


def rms_norm(x, weight, eps):
    h = x.to(torch.promote_types(torch.float32, x.dtype))
    size = h.size(-1)
    scaled = torch.nn.functional.pad(h, (0, 1), value=(size * eps) ** 0.5)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return (h / length * size**0.5 * weight).to(x.dtype)


class RMSNorm(torch.nn.Module):
    def __init__(self, d_model, eps=1e-5, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.full((d_model,), 1.0, device=device, dtype=dtype))

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)
