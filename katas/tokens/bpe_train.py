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
#
# **Sources:** Sennrich, Haddow, Birch 2015: Neural Machine Translation of Rare Words with Subword Units,
# [arXiv:1508.07909](https://arxiv.org/abs/1508.07909); Radford et al. 2019: Language Models are Unsupervised Multitask
# Learners (byte-level BPE), https://github.com/openai/gpt-2.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Counts, Pieces, Special tokens, Ties, Short text, Cost, Errors</summary>
#
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
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from collections import Counter
# from itertools import pairwise
#
# for pieces in ([b"aaab", b" aaab", b" ab"], [[256, 97, 98], [32, 256, 97, 98], [32, 97, 98]]):
#     print(Counter(pair for ids in pieces for pair in pairwise(ids)).most_common())

# %%
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

# GPT-2's pieces: an English ending, a word, a number or signs with the space before them, or white space. The original
# is for the package `regex`; this is an approximation for `re`, which differs in a few numerals such as ² and Ⅷ.
PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


# %%
def train_bpe(text: str, vocab_size: int, special_tokens: Sequence[str] = ()) -> list[tuple[int, int]]:
    """The merges of byte-level BPE as pairs of ids, the first learned first; merge i makes the id 256 + i.

    Of equally frequent pairs the one whose tokens are greater as bytes is learned. Raises ValueError where vocab_size
    is below 256 + len(special_tokens). Sennrich et al. 2015, arXiv:1508.07909; bytes as in GPT-2.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("bpe_train")
