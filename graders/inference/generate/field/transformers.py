"""As transformers' `_sample` without sampling: `attention_mask` grows, `position_ids` come from its cumsum each time."""

import torch


@torch.no_grad()
def generate(model, input_ids, attention_mask, max_new_tokens, stop_ids, pad_id):
    batch_size, prompt_length = input_ids.shape
    eos_token_id = torch.tensor(stop_ids, device=input_ids.device)
    unfinished_sequences = torch.ones(batch_size, dtype=torch.long, device=input_ids.device)
    this_peer_finished, past_key_values, cur_len = False, None, prompt_length
    while not this_peer_finished:
        position_ids = attention_mask.long().cumsum(-1) - 1
        position_ids = position_ids.masked_fill(attention_mask == 0, 0)
        new = prompt_length if past_key_values is None else 1
        logits, past_key_values = model(input_ids[:, -new:], position_ids[:, -new:], attention_mask, past_key_values)
        next_token_logits = logits[:, -1, :].to(copy=True, dtype=torch.float32)
        next_tokens = torch.argmax(next_token_logits, dim=-1)
        next_tokens = next_tokens * unfinished_sequences + pad_id * (1 - unfinished_sequences)
        input_ids = torch.cat([input_ids, next_tokens[:, None]], dim=-1)
        attention_mask = torch.cat([attention_mask, attention_mask.new_ones((batch_size, 1))], dim=-1)
        is_done = torch.isin(input_ids[:, -1], eos_token_id)
        unfinished_sequences = unfinished_sequences & ~is_done
        cur_len += 1
        this_peer_finished = unfinished_sequences.max() == 0 or cur_len >= prompt_length + max_new_tokens
    return input_ids[:, prompt_length:]
