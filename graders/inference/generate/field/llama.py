# robust: Pad id: padding is read from the ids, as Llama does, so a pad id within a text is hidden.
"""In the style of Meta's Llama: a buffer of the total length filled with the pad id, `eos_reached`, `prev_pos`."""

import torch


@torch.inference_mode()
def generate(model, input_ids, attention_mask, max_new_tokens, stop_ids, pad_id):
    bsz, prompt_len = input_ids.shape
    total_len = prompt_len + max_new_tokens
    tokens = torch.full((bsz, total_len), pad_id, dtype=torch.long, device=input_ids.device)
    tokens[:, :prompt_len] = input_ids
    input_text_mask = tokens[:, :prompt_len] != pad_id
    prompt_lens = input_text_mask.sum(dim=1)
    text_mask = torch.cat([input_text_mask, input_text_mask.new_ones(bsz, max_new_tokens)], dim=1)
    places = torch.arange(total_len, device=tokens.device) - (prompt_len - prompt_lens)[:, None]
    places = places.clamp(min=0)
    eos_reached = torch.zeros(bsz, dtype=torch.bool, device=tokens.device)
    stop_tokens = torch.tensor(list(stop_ids), device=tokens.device)
    cache, prev_pos = None, 0
    for cur_pos in range(prompt_len, total_len):
        logits, cache = model(tokens[:, prev_pos:cur_pos], places[:, prev_pos:cur_pos], text_mask[:, :cur_pos], cache)
        next_token = torch.argmax(logits[:, -1], dim=-1).reshape(-1)
        next_token = torch.where(eos_reached, pad_id, next_token)
        tokens[:, cur_pos] = next_token
        eos_reached |= torch.isin(next_token, stop_tokens)
        prev_pos = cur_pos
        if all(eos_reached):
            break
    return tokens[:, prompt_len : cur_pos + 1]
