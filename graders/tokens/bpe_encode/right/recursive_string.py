# A piece is a string with a character for each id; merges are replacements, found by recursion.
import functools
import re

PRETOKEN = re.compile(r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+""")
BASE = 0x100000  # ids as private characters, so that none is anything else


def bytes_of(merges, i):
    return bytes([i]) if i < 256 else bytes_of(merges, merges[i - 256][0]) + bytes_of(merges, merges[i - 256][1])


class Tokenizer:
    def __init__(self, merges, special_tokens=()):
        self.merges, self.special = [tuple(m) for m in merges], list(special_tokens)
        for i, m in enumerate(self.merges):
            wrong = [x for x in m if x not in range(256 + i)]
            if wrong:
                raise ValueError(f"merge {i} names {wrong}, ids end at {255 + i}")
        if not all(self.special):
            raise ValueError("one of the special tokens is ''")
        if len({*self.special}) < len(self.special):
            raise ValueError(f"special tokens more than once in {self.special}")
        self.rank = {chr(BASE + a) + chr(BASE + b): i for i, (a, b) in enumerate(self.merges)}
        self.piece = functools.lru_cache(maxsize=None)(self._piece)

    def _piece(self, s):
        at = [self.rank[s[i : i + 2]] for i in range(len(s) - 1) if s[i : i + 2] in self.rank]
        if not at:
            return s
        a, b = self.merges[min(at)]
        return self._piece(s.replace(chr(BASE + a) + chr(BASE + b), chr(BASE + 256 + min(at))))

    def encode(self, text):
        fits = [(text.find(s), -len(s), s) for s in self.special if s in text]
        if fits:
            at, _, s = min(fits)
            special = 256 + len(self.merges) + self.special.index(s)
            return [*self.encode_plain(text[:at]), special, *self.encode(text[at + len(s) :])]
        return self.encode_plain(text)

    def encode_plain(self, text):
        pieces = ("".join(chr(BASE + b) for b in m.group().encode()) for m in PRETOKEN.finditer(text))
        return [ord(c) - BASE for p in pieces for c in self.piece(p)]

    def decode(self, ids):
        specials = dict(enumerate(self.special, 256 + len(self.merges)))
        out = b""
        for i in ids:
            if i in specials:
                out += specials[i].encode()
            elif 0 <= i < 256 + len(self.merges):
                out += bytes_of(self.merges, i)
            else:
                raise ValueError(f"no token has the id {i!r}")
        return out.decode("utf8", "replace")
