import torch


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    """In float64, a product with one-hot rows, and weights of 1/N."""
    if logits.shape[:-1] != token_ids.shape:
        raise ValueError(f"ids {tuple(token_ids.shape)}: {tuple(logits.shape)}")
    if loss_mask is not None and loss_mask.shape != token_ids.shape:
        raise ValueError(f"mask {tuple(loss_mask.shape)}: {tuple(logits.shape)}")
    if num_tokens is not None and int(num_tokens) < 0:
        raise ValueError(f"N {int(num_tokens)}")
    learnt = torch.ones_like(token_ids).bool() if loss_mask is None else loss_mask.clone()
    learnt[:, 0] = False
    n = learnt.sum().item() if num_tokens is None else int(num_tokens)
    learnt = learnt.roll(-1, 1)
    answers = torch.nn.functional.one_hot(token_ids.roll(-1, 1), logits.shape[-1]).bool() & learnt.unsqueeze(-1)
    x = logits.double()
    taken = torch.where(answers, x, 0.0).sum((0, 1, 2))
    log_z = torch.where(learnt, torch.logsumexp(x, -1), 0.0).sum()
    return ((log_z - taken) / (n or 1)).to(logits.dtype)
