import heapq
import re
from collections import defaultdict

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


class Descending:
    """Greater bytes come out of the heap first."""

    def __init__(self, first, second):
        self.key = (first, second)

    def __lt__(self, other):
        return self.key > other.key


def train_bpe(text, vocab_size, special_tokens=()):
    specials = list(special_tokens)
    if any(t == "" for t in specials):
        raise ValueError(f"empty special token in {specials}")
    if len(set(specials)) != len(specials):
        raise ValueError(f"repeated special token in {specials}")
    n_merges = vocab_size - 256 - len(specials)
    if n_merges < 0:
        raise ValueError(f"vocab_size {vocab_size} < {256 + len(specials)}")
    chunks = [text]
    if specials:
        chunks = re.split("|".join(re.escape(t) for t in sorted(specials, key=lambda t: -len(t))), text)
    freq = defaultdict(int)
    for chunk in chunks:
        for match in re.finditer(PRETOKEN, chunk):
            freq[match.group().encode("utf-8")] += 1
    words, counts = [list(w) for w in freq], list(freq.values())
    vocab = {i: bytes([i]) for i in range(256)}
    pair_count, where = defaultdict(int), defaultdict(set)
    for w, ids in enumerate(words):
        for pair in zip(ids, ids[1:]):
            pair_count[pair] += counts[w]
            where[pair].add(w)

    def entry(pair):
        return (-pair_count[pair], Descending(vocab[pair[0]], vocab[pair[1]]), pair)

    heap = [entry(pair) for pair in pair_count]
    heapq.heapify(heap)
    merges = []
    while len(merges) < n_merges and heap:
        count, _, pair = heapq.heappop(heap)
        if -count != pair_count[pair] or count == 0:
            continue  # an entry from before
        new = 256 + len(merges)
        vocab[new] = vocab[pair[0]] + vocab[pair[1]]
        merges.append(pair)
        changed = set()
        for w in where.pop(pair):
            ids, i = words[w], 0
            for old in zip(ids, ids[1:]):
                pair_count[old] -= counts[w]
                changed.add(old)
            while i < len(ids) - 1:
                if ids[i] == pair[0] and ids[i + 1] == pair[1]:
                    ids[i : i + 2] = [new]
                i += 1
            for now in zip(ids, ids[1:]):
                pair_count[now] += counts[w]
                where[now].add(w)
                changed.add(now)
        for each in changed:
            heapq.heappush(heap, entry(each))
    return merges
