# ---
# jupyter:
#   dojo:
#     title: Training a BPE tokenizer
#     level: 3
#     minutes: 35
#     builds_on: []
#     sources:
#       - "Sennrich, Haddow, Birch 2015: Neural Machine Translation of Rare Words with Subword Units, arXiv:1508.07909"
#       - "Radford et al. 2019: Language Models are Unsupervised Multitask Learners (byte-level BPE), https://github.com/openai/gpt-2"
# ---

# %% [markdown]
# # Training a BPE tokenizer
#
# $$\mathrm{merge}_i = \operatorname{argmax}_{(a, b)} \sum_p n_p \cdot c_p(a, b)$$
#
# Start from bytes. Take the most frequent pair of neighboring tokens, make it a new token, replace it everywhere, and
# repeat. The list of these pairs is the tokenizer of GPT-2 and of most models since. Piece $p$ is seen $n_p$ times, and
# has $a$ before $b$ at $c_p(a, b)$ places.
#
# **Write** `train_bpe(text, vocab_size, special_tokens=())`. It returns the merges: a list of pairs of ids, the first
# learned first. Ids 0 to 255 are the bytes of UTF-8; merge $i$, counted from 0, makes the id $256 + i$.
# `vocab_size` counts bytes, merges and special tokens.
#
# The text is cut at special tokens. Each part is split by `re.findall(PRETOKEN, part)`, where `PRETOKEN` is given, and
# pairs never cross a piece.
#
# Not allowed: `tiktoken` and `tokenizers`.
#
# **Example.** `train_bpe("aaab aaab ab", 259)`: the pieces are `aaab`, ` aaab` and ` ab`. The pair `aa` is seen four
# times, `ab` three times, ` a` twice: `(97, 97)` becomes 256. Now `(97, 98)` is seen three times, `(256, 97)` twice:
# `(97, 98)` becomes 257. Then `(256, 257)` is seen twice, all others once. The result is
# `[(97, 97), (97, 98), (256, 257)]`.

# %% [markdown] tags=["contract"]
# - **Counts.** Every place counts: `aaa` has the pair `aa` twice. A pair seen once may be learned too. Replacing goes
#   from left to right: `aaa` becomes `(aa)a`.
# - **Pieces.** Text may hold any characters; white space counts, also beside a special token.
# - **Special tokens.** They are plain strings, and the tokens on either side of one are no neighbors. Where several
#   begin at one place, the longest is taken.
# - **Ties.** Of equally frequent pairs the one whose tokens are greater as bytes is learned: first tokens are compared,
#   then second ones, and `b` is greater than `aa`.
# - **Short text.** Fewer merges when no pair is left.
# - **Cost.** At most 8 times the reference's time, for 200 kB of prose and 300 merges.
# - **Errors.** A `vocab_size` below `256 + len(special_tokens)`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from collections import Counter
# from itertools import pairwise
#
# for pieces in ([b"aaab", b" aaab", b" ab"], [[256, 97, 98], [32, 256, 97, 98], [32, 97, 98]]):
#     print(Counter(pair for ids in pieces for pair in pairwise(ids)).most_common())

# %% [markdown] tags=["hint"]
# You need three steps that repeat: count the pairs, choose one, replace it. Write the last as a function of a list of
# ids, with a `while` loop.

# %% [markdown] tags=["hint"]
# Most words stand in a text many times. Count the pieces first with a `Counter`: a pair in a piece is then seen as
# often as the piece.

# %% [markdown] tags=["hint"]
# Keep `vocab`, the bytes of each id. The choice is
# `max(counts, key=lambda pair: (counts[pair], vocab[pair[0]], vocab[pair[1]]))`. Only pieces that hold the pair
# change: take their pairs out of `counts`, replace, and count them again.

# %%
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

# GPT-2's pieces: an English ending, a word, a number or signs with the space before them, or white space. The original
# is for the package `regex`; this is an approximation for `re`, which differs in a few numerals such as ² and Ⅷ.
PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


# %%
### BEGIN SOLUTION
def merge(ids: list[int], pair: tuple[int, int], new: int) -> None:
    """Put `new` for each such pair, in place, from left to right."""
    place = 0
    while place < len(ids) - 1:
        if (ids[place], ids[place + 1]) == pair:
            ids[place : place + 2] = [new]
        place += 1


def count(counts: Counter[tuple[int, int]], ids: list[int], times: int) -> None:
    """Add the pairs of a piece that is seen so many times."""
    for pair in pairwise(ids):
        counts[pair] += times


### END SOLUTION


def train_bpe(text: str, vocab_size: int, special_tokens: Sequence[str] = ()) -> list[tuple[int, int]]:
    """The merges of byte-level BPE as pairs of ids, the first learned first; merge i makes the id 256 + i.

    Of equally frequent pairs the one whose tokens are greater as bytes is learned. Raises ValueError where vocab_size
    is below 256 + len(special_tokens). Sennrich et al. 2015, arXiv:1508.07909; bytes as in GPT-2.
    """
    ### BEGIN SOLUTION
    num_merges = vocab_size - 256 - len(special_tokens)
    if num_merges < 0:
        raise ValueError(f"vocab_size={vocab_size} cannot hold 256 bytes and {len(special_tokens)} special tokens")
    longest_first = sorted(special_tokens, key=len, reverse=True)
    parts = re.split("|".join(map(re.escape, longest_first)), text) if special_tokens else [text]
    seen = Counter(piece for part in parts for piece in re.findall(PRETOKEN, part))
    pieces = [(list(piece.encode()), times) for piece, times in seen.items()]
    counts: Counter[tuple[int, int]] = Counter()
    for ids, times in pieces:
        count(counts, ids, times)

    vocab = [bytes([byte]) for byte in range(256)]
    merges: list[tuple[int, int]] = []
    while len(merges) < num_merges and counts:
        best = max(counts, key=lambda pair: (counts[pair], vocab[pair[0]], vocab[pair[1]]))
        for ids, times in pieces:
            if best in pairwise(ids):
                count(counts, ids, -times)
                merge(ids, best, len(vocab))
                count(counts, ids, +times)
        counts = +counts  # without the zeros
        merges.append(best)
        vocab.append(vocab[best[0]] + vocab[best[1]])
    return merges
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Counts kept up to date.** A merge changes only the pieces that hold the pair. Their pairs are taken out, and what
# the merge leaves is counted again: neighbors of the old tokens lose, those of the new token appear.
#
# **Ties.** They are common as soon as counts are small. The rule here is that of Stanford's CS336; minbpe takes the
# pair seen first, Hugging Face the smaller ids.
#
# **What it costs.** $R$ rounds that look through $P$ different pieces are $O(RP)$. 200 kB of prose with 1,066 different
# pieces among 27,544 take 0.22 s for 300 merges; 0.53 s with all pairs counted anew in each round, 24 s if pieces are
# not counted first. GPT-2 has 50,000 merges: with a million different pieces an index is due.
#
# ## The other formulation
#
# A heap of pairs by count and an index from each pair to the pieces that hold it: a round then costs what it changes.
# That is what `tokenizers` does in Rust.
#
# ## The usual mistakes
#
# - Counts of the pairs beside a merge are not taken back, so pairs that no longer exist are learned.
# - Ties by ids: 256 is greater than 98, but the token `aa` is smaller than `b`.
# - Special tokens that are not escaped: `<|endoftext|>` is an alternative of three in a pattern.
# - `max()` of no counts: a short text ends in an exception.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why bytes and not characters?
#
# - 256 ids write everything; Unicode has more than 150,000 characters, and a rare one would be unknown.
# - The price: a Chinese character or an emoji starts as three or four tokens until merges join them.
#
# Source: Radford et al. 2019, section 2.2, https://github.com/openai/gpt-2.
#
# ### How many million weights do embedding and head have, `vocab` tokens of width `width`, not tied?
#
# - One row a token in either. A larger vocabulary shortens sequences, and these two matrices grow with it.
# - Rare tokens are seen too seldom to be learned. The best size grows with the model: 32,000 in Llama 2, 128,256 in
#   Llama 3.
# - Of the 8.0 billion parameters of Llama 3 8B it is 1.05 billion.
#
# Answer: `2 * vocab * width / 1e6` million, within 5 %. Settings: `vocab` 32000, 128256; `width` 2048, 4096.
#
# Source: Tao et al. 2024, arXiv:2407.13623.
#
# ### How many billion pairs do `merges` rounds count at most that count `pieces` different pieces of 7 bytes anew?
#
# - A piece of 7 bytes has 6 pairs at first, and fewer with each merge.
# - Counts kept up to date cost what a round changes, once an index says which pieces hold the pair.
# - Without counting equal pieces first it would be the whole text in each round.
#
# Answer: `merges * pieces * 6 / 1e9` billion, within 5 %. Settings: `merges` 10000, 32000, 50000; `pieces` 100000,
# 1000000.
#
# Source: Sennrich, Haddow, Birch 2015, section 3.2, arXiv:1508.07909.
#
# ### How would you train on 100 GB?
#
# - Cut the file at special tokens, count pieces in parallel, add the counters: the text itself is then not needed.
# - A heap and an index from pairs to pieces: a round costs what it changes.
# - Or take a sample. A few GB give nearly the same merges.
#
# Source: Stanford CS336, assignment 1, https://github.com/stanford-cs336/assignment1-basics.
