"""In the style of minbpe's RegexTokenizer: the pair with the lowest merge index, special tokens cut out by a pattern."""

import re

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


class Tokenizer:
    def __init__(self, merges, special_tokens=()):
        self.merges = {(p0, p1): 256 + i for i, (p0, p1) in enumerate(merges)}
        self.vocab = {idx: bytes([idx]) for idx in range(256)}
        for (p0, p1), idx in self.merges.items():
            self.vocab[idx] = self.vocab[p0] + self.vocab[p1]
        self.special_tokens = {s: len(self.vocab) + i for i, s in enumerate(special_tokens)}
        self.vocab |= {v: k.encode("utf-8") for k, v in self.special_tokens.items()}

    def _encode_chunk(self, text_bytes):
        ids = list(text_bytes)
        while len(ids) >= 2:
            pair = min(zip(ids, ids[1:]), key=lambda p: self.merges.get(p, float("inf")))
            if pair not in self.merges:
                break
            for i in range(len(ids) - 1):
                if tuple(ids[i : i + 2]) == pair:
                    ids[i : i + 2] = [self.merges[pair]]
        return ids

    def encode(self, text):
        special = sorted(self.special_tokens, key=len, reverse=True)
        ids, special_pattern = [], "(" + "|".join(re.escape(k) for k in special) + ")"
        for part in re.split(special_pattern, text) if self.special_tokens else [text]:
            chunks = [] if part in self.special_tokens else re.findall(PRETOKEN, part)
            ids += [self.special_tokens[part]] if part in self.special_tokens else []
            ids += [i for chunk in chunks for i in self._encode_chunk(chunk.encode("utf-8"))]
        return ids

    def decode(self, ids):
        if not all(idx in self.vocab for idx in ids):
            raise ValueError(f"invalid token id in {ids}")
        return b"".join(self.vocab[idx] for idx in ids).decode("utf-8", errors="replace")
