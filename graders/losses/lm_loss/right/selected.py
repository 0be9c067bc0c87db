import torch
import torch.nn.functional as F


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    """Only the kept pairs, and the library's mean."""
    if tuple(token_ids.shape) != tuple(logits.shape[:-1]):
        raise ValueError(f"{list(token_ids.shape)} does not fit {list(logits.shape)}")
    if loss_mask is not None and tuple(loss_mask.shape) != tuple(token_ids.shape):
        raise ValueError(f"{list(loss_mask.shape)} does not fit {list(token_ids.shape)}")
    if num_tokens is not None:
        num_tokens = int(num_tokens)
        if num_tokens < 0:
            raise ValueError(f"num_tokens must be 0 or more, not {num_tokens}")
    x, y = logits[:, :-1], token_ids[:, 1:]
    if loss_mask is not None:
        x, y = x[loss_mask[:, 1:]], y[loss_mask[:, 1:]]
    else:
        x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1)
    if not len(y):
        return (logits * 0).nan_to_num().sum()
    mean = F.cross_entropy(x.to(torch.promote_types(x.dtype, torch.float32)), y)
    if num_tokens is not None:
        mean = mean * (len(y) / max(num_tokens, 1))
    return mean.to(logits.dtype)
