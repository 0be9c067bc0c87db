import torch


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    b, s, _ = logits.shape
    if token_ids.shape != (b, s):
        raise ValueError("token_ids has shape %s, expected %s" % (tuple(token_ids.shape), (b, s)))
    if loss_mask is None:
        loss_mask = torch.ones(b, s, dtype=torch.bool, device=logits.device)
    elif loss_mask.shape != (b, s):
        raise ValueError("loss_mask has shape %s, expected %s" % (tuple(loss_mask.shape), (b, s)))
    mask = loss_mask[:, 1:]
    n = mask.sum() if num_tokens is None else torch.as_tensor(num_tokens, device=logits.device).reshape(())
    if n < 0:
        raise ValueError(f"num_tokens = {n.item()}")
    x = logits if logits.dtype == torch.float64 else logits.float()
    logp = torch.log_softmax(x[:, :-1], dim=-1)
    per_token = -torch.gather(logp, 2, token_ids[:, 1:].unsqueeze(2)).squeeze(2)
    per_token = per_token.masked_fill(~mask, 0)
    return (per_token.sum() / n.clamp(min=1)).type_as(logits)
