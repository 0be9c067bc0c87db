"""In the manner of tiktoken's educational encoder: ranks by bytes, and the lowest rank among neighbors joined."""

import re

PRETOKEN = re.compile(r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+""")


def bpe_encode(mergeable_ranks, word):
    parts = [bytes([b]) for b in word]
    while True:
        ranks = [mergeable_ranks.get(a + b, float("inf")) for a, b in zip(parts[:-1], parts[1:])]
        if not ranks or (min_rank := min(ranks)) == float("inf"):
            return [mergeable_ranks[part] for part in parts]
        i = ranks.index(min_rank)
        parts = parts[:i] + [parts[i] + parts[i + 1]] + parts[i + 2 :]


class Tokenizer:
    def __init__(self, merges, special_tokens=()):
        tokens = [bytes([i]) for i in range(256)]
        for first, second in merges:
            tokens.append(tokens[first] + tokens[second])
        self.mergeable_ranks = {token: rank for rank, token in enumerate(tokens)}
        self.special_tokens = {token: len(tokens) + i for i, token in enumerate(special_tokens)}
        self.decoder = dict(enumerate([*tokens, *(token.encode() for token in special_tokens)]))

    def encode(self, text):
        special_pat = "(" + "|".join(map(re.escape, sorted(self.special_tokens, key=len, reverse=True))) + ")"
        tokens = []
        for i, part in enumerate(re.split(special_pat, text) if self.special_tokens else [text]):
            for word in PRETOKEN.findall(part) if i % 2 == 0 else []:
                tokens += bpe_encode(self.mergeable_ranks, word.encode("utf-8"))
            tokens += [self.special_tokens[part]] if i % 2 == 1 else []
        return tokens

    def decode(self, ids):
        if unknown := [token for token in ids if token not in self.decoder]:
            raise ValueError(f"Invalid tokens for decoding: {unknown}")
        return b"".join(self.decoder[token] for token in ids).decode("utf-8", errors="replace")
