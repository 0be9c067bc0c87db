# robust: Half precision: weight's gradient is summed over chunks in the dtype of the weight.
"""In the style of Liger's fused linear cross-entropy, with torch's operations in place of its kernels."""

import torch


class FusedLinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, _input, weight, target, ignore_index, chunk_size):
        BT = _input.shape[0]
        grad_input = torch.zeros_like(_input)
        grad_weight = torch.zeros_like(weight) if weight.requires_grad else None
        loss_1d = torch.zeros(BT, dtype=torch.float32, device=_input.device)
        n_non_ignore = (target != ignore_index).sum().item()
        for chunk_id in range((BT + chunk_size - 1) // chunk_size):
            start, end = chunk_id * chunk_size, min((chunk_id + 1) * chunk_size, BT)
            _input_chunk, target_chunk = _input[start:end], target[start:end]
            logits_chunk = (_input_chunk @ weight.t()).float()
            mask = target_chunk != ignore_index
            safe = target_chunk.masked_fill(~mask, 0)
            log_probs = torch.log_softmax(logits_chunk, dim=-1)
            loss_1d[start:end] = -log_probs.gather(1, safe[:, None]).squeeze(1) * mask
            grad_logits_chunk = log_probs.exp_()
            grad_logits_chunk[torch.arange(end - start, device=safe.device), safe] -= 1
            grad_logits_chunk = (grad_logits_chunk * mask[:, None] / n_non_ignore).to(_input.dtype)
            grad_input[start:end] = grad_logits_chunk @ weight
            if grad_weight is not None:
                grad_weight += grad_logits_chunk.t() @ _input_chunk
        ctx.save_for_backward(grad_input, grad_weight)
        return (loss_1d.sum() / n_non_ignore).to(_input.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        grad_input, grad_weight = ctx.saved_tensors
        grad_weight = grad_weight * grad_output if grad_weight is not None else None
        return grad_input * grad_output, grad_weight, None, None, None


def linear_cross_entropy(hidden, weight, targets, ignore_index=-100, chunk_size=1024):
    hidden, targets = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    return FusedLinearCrossEntropy.apply(hidden, weight, targets, ignore_index, chunk_size)
