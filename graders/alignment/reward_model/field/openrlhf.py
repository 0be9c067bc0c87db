# robust: Errors: shapes are the caller's.
"""In the style of OpenRLHF: the last token found from the right, the loss as a module."""

import torch.nn as nn
import torch.nn.functional as F


def last_token_values(values, attention_mask):
    eos_indices = attention_mask.size(1) - 1 - attention_mask.long().fliplr().argmax(dim=1, keepdim=True)
    return values.gather(dim=1, index=eos_indices).squeeze(1)


class PairWiseLoss(nn.Module):
    def forward(self, chosen_reward, reject_reward, margin=None):
        if margin is not None:
            loss = -F.logsigmoid(chosen_reward - reject_reward - margin)
        else:
            loss = -F.logsigmoid(chosen_reward - reject_reward)
        return loss.mean()


def reward_loss(chosen, rejected, margin=None):
    return PairWiseLoss()(chosen, rejected, margin)
