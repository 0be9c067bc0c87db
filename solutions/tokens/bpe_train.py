# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
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
# Start from bytes. Find the pair of neighbours that is seen most often, make it a new token, replace it everywhere,
# and begin again. The list of these pairs is the tokenizer of GPT-2 and of most models since.
#
# **Write** `train_bpe(text, vocab_size, special_tokens=())`. It returns the merges: a list of pairs of ids, the first
# learnt first.
#
# - **Ids 0 to 255** are the bytes of UTF-8. Merge number $i$, counted from 0, makes the id $256 + i$.
# - **The number of merges** is `vocab_size - 256 - len(special_tokens)`, or fewer when no pair is left.
# - **Special tokens** cut the text and take no part: what stands on either side is no neighbour. They are plain
#   strings, and their list is not modified. Read from left to right; where several begin at one place, the longest is
#   taken.
# - **Pieces** are `re.findall(PRETOKEN, part)` for each part of the cut text. `PRETOKEN` is given, a pattern for
#   Python's `re`. Pairs never cross a piece.
# - **Each round** takes the most frequent pair of neighbours in all pieces. Every place counts: `aaa` has the pair
#   `aa` twice. A pair seen once still counts.
# - **Of equals** the pair is taken whose tokens are greater as bytes: their first tokens are compared, then the second
#   ones. The token `b` is greater than the token `aa`.
# - **Then it is replaced** everywhere, from left to right: `aaa` becomes `(aa)a`.
# - **Time:** at most 8 times the reference's, for 200 kB of prose with a thousand different pieces and 300 merges.
# - **A `ValueError`** whose message holds the value: a `vocab_size` below `256 + len(special_tokens)`; a special token
#   that is empty or stands there twice.
# - **Not graded:** text with lone surrogates, which have no UTF-8.
#
# Not allowed: `tiktoken` and `tokenizers`.
#
# **Example.** `train_bpe("aaab aaab ab", 259)`: the pieces are `aaab`, ` aaab` and ` ab`. The pair `aa` is seen four
# times, `ab` three times, ` a` twice: `(97, 97)` becomes 256. Now `(97, 98)` is seen three times, `(256, 97)` twice:
# `(97, 98)` becomes 257. Then `(256, 257)` is seen twice, all others once. The result is
# `[(97, 97), (97, 98), (256, 257)]`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from collections import Counter
# from itertools import pairwise
#
# pieces = [list(b"aaab"), list(b" aaab"), list(b" ab")]
# print(pieces, Counter(pair for ids in pieces for pair in pairwise(ids)).most_common())
# pieces = [[256, 97, 98], [32, 256, 97, 98], [32, 97, 98]]
# print(pieces, Counter(pair for ids in pieces for pair in pairwise(ids)).most_common())

# %% [markdown] tags=["hint"]
# You need three steps that repeat: count the pairs, choose one, replace it. Write the last as a function of a list of
# ids, with a `while` loop that goes one or two places further.

# %% [markdown] tags=["hint"]
# Most words stand in a text many times. Count the pieces first with a `Counter`: a pair in a piece is then seen as
# often as the piece.

# %% [markdown] tags=["hint"]
# Keep `tokens`, the bytes of each id. The choice is
# `max(counts, key=lambda pair: (counts[pair], tokens[pair[0]], tokens[pair[1]]))`. Only pieces that hold the pair
# change: take their pairs out of `counts`, replace, and count them again.

# %%
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

# GPT-2's pieces: an English ending, a word, a number or signs with the space before them, or white space.
PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


# %%
### BEGIN SOLUTION
def parts_of(text: str, special_tokens: Sequence[str]) -> list[str]:
    """What stands between the special tokens."""
    for token, times in Counter(special_tokens).items():
        if not token or times > 1:
            raise ValueError(f"the special token {token!r} is empty, or stands there twice")
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.split("|".join(map(re.escape, longest_first)), text) if special_tokens else [text]


def merged(ids: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """The same ids with `new` for each such pair, from left to right."""
    found, place = [], 0
    while place < len(ids):
        if tuple(ids[place : place + 2]) == pair:
            found.append(new)
            place += 2
        else:
            found.append(ids[place])
            place += 1
    return found


def add(counts: Counter[tuple[int, int]], ids: list[int], times: int) -> None:
    """Count the pairs of a piece that is seen so many times."""
    for pair in pairwise(ids):
        counts[pair] += times


### END SOLUTION


def train_bpe(text: str, vocab_size: int, special_tokens: Sequence[str] = ()) -> list[tuple[int, int]]:
    """The merges of byte-level BPE as pairs of ids, the first learnt first; merge i makes the id 256 + i.

    Of pairs seen equally often the one whose tokens are greater as bytes is learnt, first token first.

    Raises:
        ValueError: vocab_size is below 256 + len(special_tokens), or a special token is empty or repeated.
    """
    ### BEGIN SOLUTION
    parts = parts_of(text, special_tokens)
    rounds = vocab_size - 256 - len(special_tokens)
    if rounds < 0:
        raise ValueError(f"vocab_size={vocab_size} has no room for 256 bytes and {len(special_tokens)} special tokens")
    seen = Counter(piece for part in parts for piece in re.findall(PRETOKEN, part))
    pieces = [(list(piece.encode()), times) for piece, times in seen.items()]
    counts: Counter[tuple[int, int]] = Counter()
    for ids, times in pieces:
        add(counts, ids, times)
    tokens = [bytes([byte]) for byte in range(256)]
    merges: list[tuple[int, int]] = []
    while len(merges) < rounds and counts:
        best = max(counts, key=lambda pair: (counts[pair], tokens[pair[0]], tokens[pair[1]]))
        for ids, times in pieces:
            if best in pairwise(ids):
                add(counts, ids, -times)
                ids[:] = merged(ids, best, len(tokens))
                add(counts, ids, +times)
        counts = +counts  # without the zeros
        merges.append(best)
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return merges
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Bytes.** 256 ids write any text: nothing is ever unknown, and no alphabet must be collected first.
#
# **Pieces.** Without them the most frequent pairs join a word's end to the next one's beginning, and `dog`, `dog.` and
# `dog!` become three tokens. They are also what makes training fast: a text has far fewer different pieces than pieces.
#
# **Counts kept up to date.** A merge changes only the pieces that hold the pair. Their pairs are taken out, and what
# the merge leaves is counted again: neighbours of the old tokens lose, those of the new token appear.
#
# **Ties.** They are common as soon as counts are small. Whoever leaves them to the order of a dict gets another
# tokenizer from the same text in another order.
#
# **What it costs.** For $R$ rounds over $P$ different pieces $O(R P)$ steps that look for the pair; counting all pairs
# anew in each round is the same order with a larger factor, and without counted pieces it is $O(R N)$ for the $N$
# bytes of the text. Memory is about 100 bytes for each byte of a different piece: an entry of a list, and its share of
# the counts. An index of the pieces that hold each pair makes a round cost what it changes.
#
# ## The other formulation
#
# A heap of pairs by count, an index `pair -> pieces`, and pieces as linked lists: each round touches only the places
# of its pair. That is what fast trainers do. Sennrich's own code writes each piece as text with spaces between the
# tokens and replaces the pair by a regular expression.
#
# ## The usual mistakes
#
# - Counts of the pairs beside a merge are not taken back, so pairs that no longer exist are learnt.
# - Pieces are counted once each, whatever their number.
# - Ties by ids: 256 is greater than 98, but the token `aa` is smaller than `b`.
# - The regular expression with another `\w`: the package `regex` takes combining marks for letters, `re` does not.
# - Special tokens that are not escaped: `<|endoftext|>` is an alternative of three in a pattern.

# %% tags=["active-ipynb", "solution"]
# # How the text shrinks: tokens that are left after each merge
# from matplotlib import pyplot as plt
#
# story = "the cat sat on the mat, the rat sat on the cat, and that was that. " * 3
# learnt = train_bpe(story, 256 + 40)
# pieces = re.findall(PRETOKEN, story)  # ASCII: a character for each id
# lengths = [sum(map(len, pieces))]
# for number, pair in enumerate(learnt):
#     pieces = [piece.replace(chr(pair[0]) + chr(pair[1]), chr(256 + number)) for piece in pieces]
#     lengths.append(sum(map(len, pieces)))
# names = [bytes([byte]) for byte in range(256)]
# for first, second in learnt:
#     names.append(names[first] + names[second])
# plt.step(range(len(lengths)), lengths, where="post")
# for number in range(0, len(learnt), 4):
#     plt.annotate(repr(names[256 + number].decode()), (number + 1, lengths[number + 1]), rotation=45)
# plt.axhline(len(pieces), linestyle=":", label="one token for each piece")
# plt.xlabel("merges learnt")
# plt.ylabel("tokens of the text")
# plt.title("The first merges save most, until each piece is one token")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why bytes and not characters?
#
# - 256 ids write everything; Unicode has more than 150,000 characters, and a rare one would be unknown.
# - The price: a character of Chinese or an emoji starts as three or four tokens until merges join them.
#
# Source: Radford et al. 2019, section 2.2, https://github.com/openai/gpt-2.
#
# ### Why cut the text into pieces first?
#
# - Otherwise merges cross words and glue punctuation to them: many tokens for one word.
# - Training counts each different piece once, and encoding can keep what it found for a piece.
#
# Source: Radford et al. 2019, section 2.2, https://github.com/openai/gpt-2.
#
# ### How large should a vocabulary be?
#
# - A larger one makes sequences shorter, and embedding and head larger: at width 4,096 each 1,000 tokens are 4 million
#   weights in either.
# - Rare tokens are seen too seldom to be learnt. The best size grows with the model.
#
# Source: Tao et al. 2024, arXiv:2407.13623.
#
# ### How would you train on 100 GB?
#
# - Cut the file at special tokens, count pieces in parallel, add the counters: the text itself is then not needed.
# - A heap and an index from pairs to pieces: a round costs what it changes.
#
# Source: Stanford CS336, assignment 1, https://github.com/stanford-cs336/assignment1-basics.
#
# ### What differs in unigram language model tokenization?
#
# - It starts from many candidates and drops those whose loss hurts the likelihood of the text least.
# - It gives a probability to each segmentation, so that training can sample them.
#
# Source: Kudo 2018, arXiv:1804.10959.
#
# ### What does a tokenizer do to numbers and to other languages?
#
# - Numbers are cut as they were frequent, not by place value. Cutting digits apart, or by threes, helps arithmetic.
# - A language that is rare in the training text takes several times as many tokens for the same words.
#
# Source: Petrov et al. 2023, arXiv:2305.15425.
#
# ### What are glitch tokens?
#
# - Tokens learnt from the tokenizer's text that the model's text hardly has: their embeddings stay as they were drawn.
# - Train both on the same text, or look for embeddings that never moved.
#
# Source: Land and Bartolo 2024, arXiv:2405.05417.
