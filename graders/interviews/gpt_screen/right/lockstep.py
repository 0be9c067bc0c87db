# with interviews/gpt_screen


def generate(model, prompts, max_new_tokens, stop_id):
    # as Llama's first code: from the shortest prompt on all rows take one token a call, their own while they have one
    texts, start = [list(prompt) for prompt in prompts], min(map(len, prompts))
    ends = [len(prompt) + max_new_tokens for prompt in prompts]
    over, was_training = [False] * len(prompts), model.training
    model.eval()
    with torch.inference_mode():
        cache = model.new_cache(len(prompts))
        feed = torch.tensor([text[:start] for text in texts])
        at = start
        while not all(over):
            best = model(feed.to(model.lm_head.weight.device), cache)[:, -1].argmax(-1).tolist()
            for row, text in enumerate(texts):
                if not over[row] and len(text) == at:
                    text.append(best[row])
                    over[row] = best[row] == stop_id or len(text) == ends[row]
            feed = torch.tensor([[text[at] if at < len(text) else 0] for text in texts])
            at += 1
    model.train(was_training)
    return [text[len(prompt) :] for text, prompt in zip(texts, prompts)]


class Classifier(nn.Module):
    def __init__(self, gpt, num_classes):
        super().__init__()
        self.body, self.score = gpt, nn.Linear(gpt.position_embedding.weight.shape[1], num_classes)

    def forward(self, ids):
        states = []
        hook = self.body.final_norm.register_forward_hook(lambda module, args, out: states.append(out))
        self.body(ids)
        hook.remove()
        keep = ids.ne(0).unsqueeze(-1)
        return self.score(states[0].masked_fill(~keep, 0).sum(1) / keep.sum(1))
