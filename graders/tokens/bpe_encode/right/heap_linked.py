# Pieces as linked lists, pairs in a heap; what was encoded before is kept.
import heapq
import re

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


class Tokenizer:
    def __init__(self, merges, special_tokens=()):
        self.rank = {}
        self.vocab = {i: bytes([i]) for i in range(256)}
        for i, pair in enumerate(merges):
            a, b = pair
            for x in (a, b):
                if x < 0 or x >= 256 + i:
                    raise ValueError(f"merge {i} = {pair}: unknown id {x}")
            self.rank[a, b] = 256 + i
            self.vocab[256 + i] = self.vocab[a] + self.vocab[b]
        self.special = {}
        for token in special_tokens:
            if token == "":
                raise ValueError("special tokens must not be empty")
            if token in self.special:
                raise ValueError(f"special token {token!r} given twice")
            self.special[token] = len(self.vocab)
            self.vocab[len(self.vocab)] = token.encode("utf-8")
        self.cache = {}

    def _piece(self, piece):
        if piece in self.cache:
            return self.cache[piece]
        ids = list(piece.encode("utf-8"))
        n = len(ids)
        nxt = list(range(1, n)) + [-1]
        prev = list(range(-1, n - 1))
        heap = []

        def push(i):
            j = nxt[i]
            if j >= 0 and (ids[i], ids[j]) in self.rank:
                heapq.heappush(heap, (self.rank[ids[i], ids[j]], i, ids[i], ids[j]))

        for i in range(n - 1):
            push(i)
        while heap:
            new, i, a, b = heapq.heappop(heap)
            j = nxt[i]
            if j < 0 or ids[i] != a or ids[j] != b:
                continue
            ids[i], ids[j] = new, None
            nxt[i] = nxt[j]
            if nxt[i] >= 0:
                prev[nxt[i]] = i
            push(i)
            if prev[i] >= 0:
                push(prev[i])
        self.cache[piece] = [x for x in ids if x is not None]
        return self.cache[piece]

    def encode(self, text):
        out = []
        ordered = sorted(self.special, key=len, reverse=True)
        start = 0
        pattern = re.compile("|".join(re.escape(s) for s in ordered)) if ordered else None
        while pattern and (m := pattern.search(text, start)):
            for piece in re.findall(PRETOKEN, text[start : m.start()]):
                out += self._piece(piece)
            out.append(self.special[m[0]])
            start = m.end()
        for piece in re.findall(PRETOKEN, text[start:]):
            out += self._piece(piece)
        return out

    def decode(self, ids):
        parts = []
        for i in ids:
            if i not in self.vocab:
                raise ValueError(f"unknown id {i}")
            parts.append(self.vocab[i])
        return b"".join(parts).decode("utf-8", errors="replace")
