class AdamW:
    """Holds another optimiser, and hands everything on."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        import torch

        self.inner = torch.optim.AdamW(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=True)

    def __getattr__(self, name):
        return getattr(self.inner, name)
