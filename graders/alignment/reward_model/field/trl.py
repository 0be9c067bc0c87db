# robust: Errors: shapes are the caller's.
"""In the style of TRL's RewardTrainer and of transformers' sequence classification, with the last token by argmax."""

import torch
from torch import nn


def last_token_values(logits, attention_mask):
    batch_size, seq_len = logits.shape[:2]
    token_indices = torch.arange(seq_len, device=logits.device, dtype=torch.int32)
    last_non_pad_token = (token_indices * attention_mask.to(torch.int32)).argmax(-1)
    return logits[torch.arange(batch_size, device=logits.device), last_non_pad_token]


def reward_loss(rewards_chosen, rewards_rejected, margin=None):
    if margin is not None:
        return -nn.functional.logsigmoid(rewards_chosen - rewards_rejected - margin).mean()
    return -nn.functional.logsigmoid(rewards_chosen - rewards_rejected).mean()
