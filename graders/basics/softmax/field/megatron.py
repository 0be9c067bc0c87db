"""As Megatron's vocab-parallel softmax: logits in float32 first, then their maximum, exponentials, and the sum."""

import torch


def softmax(x, dim=-1):
    logits = x.float()
    logits = logits - torch.max(logits, dim=dim, keepdim=True)[0]
    exp_logits = logits.exp()
    sum_exp_logits = exp_logits.sum(dim=dim, keepdim=True)
    return exp_logits.div(sum_exp_logits).type_as(x)
