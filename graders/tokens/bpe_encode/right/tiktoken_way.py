# As tiktoken does it: one place at a time, the leftmost of the lowest rank, with GPT-2's own pattern.
import regex

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


class Tokenizer:
    def __init__(self, merges, special_tokens=()):
        self.vocab = [bytes([i]) for i in range(256)]
        self.ranks = {}
        for i, (a, b) in enumerate(merges):
            if not (0 <= a < len(self.vocab) and 0 <= b < len(self.vocab)):
                raise ValueError(f"merge {i} is ({a}, {b}), but there are only ids below {len(self.vocab)}")
            self.ranks[a, b] = len(self.vocab)
            self.vocab.append(self.vocab[a] + self.vocab[b])
        self.special = list(special_tokens)
        if "" in self.special or len(set(self.special)) != len(self.special):
            raise ValueError(f"bad special tokens: {self.special}")
        self.first_special = len(self.vocab)

    def bpe(self, piece):
        ids = list(piece)
        while True:
            found = None
            for i in range(len(ids) - 1):
                new = self.ranks.get((ids[i], ids[i + 1]))
                if new is not None and (found is None or new < found[0]):
                    found = new, i
            if found is None:
                return ids
            ids[found[1] : found[1] + 2] = [found[0]]

    def encode(self, text):
        parts = [text]
        if self.special:
            by_length = sorted(self.special, key=lambda s: (-len(s), s))
            parts = regex.split(f"({'|'.join(map(regex.escape, by_length))})", text)
        ids = []
        for part in parts:
            if part in self.special:
                ids.append(self.first_special + self.special.index(part))
                continue
            for piece in regex.finditer(GPT2, part):
                ids.extend(self.bpe(piece.group().encode("utf-8")))
        return ids

    def decode(self, ids):
        data = bytearray()
        for i in ids:
            if 0 <= i < self.first_special:
                data += self.vocab[i]
            elif self.first_special <= i < self.first_special + len(self.special):
                data += self.special[i - self.first_special].encode()
            else:
                raise ValueError(f"id {i} is not in the vocabulary")
        return str(data, "utf-8", errors="replace")
