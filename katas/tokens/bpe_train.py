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
#
# **Sources:** Sennrich, Haddow, Birch 2015: Neural Machine Translation of Rare Words with Subword Units,
# [arXiv:1508.07909](https://arxiv.org/abs/1508.07909); Radford et al. 2019: Language Models are Unsupervised Multitask
# Learners (byte-level BPE), https://github.com/openai/gpt-2.
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from collections import Counter
# from itertools import pairwise
#
# pieces = [list(b"aaab"), list(b" aaab"), list(b" ab")]
# print(pieces, Counter(pair for ids in pieces for pair in pairwise(ids)).most_common())
# pieces = [[256, 97, 98], [32, 256, 97, 98], [32, 97, 98]]
# print(pieces, Counter(pair for ids in pieces for pair in pairwise(ids)).most_common())

# %%
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

# GPT-2's pieces: an English ending, a word, a number or signs with the space before them, or white space.
PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


# %%
def train_bpe(text: str, vocab_size: int, special_tokens: Sequence[str] = ()) -> list[tuple[int, int]]:
    """The merges of byte-level BPE as pairs of ids, the first learnt first; merge i makes the id 256 + i.

    Of pairs seen equally often the one whose tokens are greater as bytes is learnt, first token first.

    Raises:
        ValueError: vocab_size is below 256 + len(special_tokens), or a special token is empty or repeated.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("bpe_train")
