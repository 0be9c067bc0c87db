# with interviews/gpt_screen


def attend(q, k, v, num_heads, positions=None):
    if positions is None:
        positions = torch.arange(q.shape[1], device=q.device)[None]
    # the last key is the last query's: the others stand before it, those below 0 are padding
    places = torch.arange(1 - k.shape[1], 1, device=q.device) + positions[:, -1:]
    seen = (places[:, None] <= positions[..., None]) & (places[:, None] >= 0)
    q, k, v = (t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~seen[:, None], torch.finfo(scores.dtype).min)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Cache:
    """Keys and values that grow by torch.cat, as in the first caches of transformers."""

    def __init__(self, weight, num_layers, batch, max_len):
        self.kept, self.width, self.max_len = [None] * num_layers, 0, max_len
        self.padding = torch.zeros(batch, 1, dtype=torch.long, device=weight.device)

    def advance(self, new):
        if self.width + len(new) > self.max_len:
            raise ValueError(f"{self.width} + {len(new)} tokens are {self.width + len(new)}, over {self.max_len}")
        self.positions = self.width + new - self.padding
        self.width += len(new)
        return self.positions.clamp(min=0)

    def put(self, layer, k, v):
        if self.kept[layer] is not None:
            k, v = (torch.cat(pair, dim=1) for pair in zip(self.kept[layer], (k, v)))
        self.kept[layer] = k, v
        return k, v


def generate(model, prompts, max_new_tokens, stop_id):
    was_training, longest = model.training, max(map(len, prompts))
    model.eval()
    with torch.no_grad():
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=model.lm_head.weight.device)
        cache = model.new_cache(len(prompts))
        cache.padding = torch.tensor([[longest - len(p)] for p in prompts], device=ids.device)
        answers = [[] for _ in prompts]
        for _ in range(max_new_tokens):
            ids = model(ids, cache)[:, -1].argmax(-1, keepdim=True)
            for answer, new in zip(answers, ids[:, 0].tolist()):
                if stop_id not in answer:
                    answer.append(new)
            if all(stop_id in answer for answer in answers):
                break
    model.train(was_training)
    return answers
