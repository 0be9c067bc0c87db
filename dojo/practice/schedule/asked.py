"""How often interviews ask each kata: what a plan chooses by.

One table, and no line in each master's header: the weights come from one survey, they are judged side by side, and
change together. None of its sources publishes counts, so a weight is 3 for what three or more of them call frequent, 2
for what two of them or most collections of exercises have, 1 for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from dojo.content.catalog import Kata

SOURCES = {
    "prep": "interview-prep-3ci, stars by problem",
    "openai": "aceoffer and arjunrnair on OpenAI's rounds, seen last in spring 2026",
    "prachub": "PracHub, questions with company and date",
    "walking": "walkinglabs on post-training",
    "lynx": "lynx-cortex, twelve drills",
    "tags": "the company tags of TorchLeet",
    "chinese": "two Chinese repositories of interview code, zeng-yirong and lyc61c",
    "peers": "the exercises of TorchCode, Pyre Code, Stanford's CS336, Deep-ML, LeetGPU and nanochat",
    "parts": "no list names it: judged by what is asked that has it as a part",
}
TABLE = """
3 softmax              peers
3 sdpa                 peers parts
3 mha                  peers parts
3 cross_entropy        prep walking lynx
3 sampling             prep walking lynx tags
3 kv_cache             prep openai prachub lynx tags
3 gpt_screen           openai prachub
3 gqa                  peers parts
3 rope                 prep peers
3 debug_lm             openai prachub
3 attention_ladder     parts
3 lm_loss              openai prachub walking
3 lora                 lynx tags chinese
3 decoding_ladder      parts
3 ppo                  walking tags chinese
3 dpo                  walking lynx tags
3 grpo                 walking tags chinese
3 bpe_train            prep prachub lynx
3 bpe_encode           prep lynx
3 beam_search          prep prachub lynx tags
2 causal_mask          peers parts
2 causal_attention     peers parts
2 rmsnorm              peers
2 layernorm            peers
2 swiglu               peers
2 adamw                peers
2 trainer_ladder       parts
2 gae                  walking chinese
2 moe                  tags peers
2 router               tags
2 numpy_ladder         parts
2 block                peers
2 lm                   peers
2 speculative          prep tags
2 flash_attention      prachub tags
2 attention_backward   prachub
2 autograd             prep prachub
2 gradients            peers
2 conv2d               prep peers
2 batchnorm            peers
2 kl_estimators        walking
2 schedules            peers
2 window_attention     tags
2 contrastive          tags
2 debug_decoding       openai prachub
2 reward_model         walking
2 manual_backprop      prep prachub
2 numpy_attention      peers
2 generate             openai lynx
2 batching             lynx tags
2 data_loader          prep
2 quantize             peers
2 paged_attention      prachub
2 mixed_precision      tags
2 mla                  chinese
2 checkpointing        lynx tags
2 ddp                  prachub tags
2 gpt2                 peers
2 kmeans               prep tags
2 logistic_regression  prep
2 debug_trainer        prachub
2 dropout              peers
1 packing              peers
1 distillation         tags
1 rope_scaling         prep
1 linear               peers
1 embedding            peers
1 mqa                  peers
1 activations          peers
1 gelu_ffn             peers
1 absolute_positions   peers
1 alibi                peers
1 accounting           parts
1 encoder_layer        peers
1 decoder_layer        peers
1 encoder              peers
1 seq2seq              peers
1 linear_cross_entropy parts
1 tensor_parallel      prachub
"""  # the most asked first, with who says so


def _rows() -> dict[str, tuple[int, tuple[str, ...]]]:
    rows = (line.split() for line in TABLE.strip().splitlines())
    return {name: (int(weight), tuple(sources)) for weight, name, *sources in rows}


ASKED = _rows()
TARGETS = {  # the tracks that count twice for such a position: our judgment, for no source tells positions apart
    "all": "",
    "inference": "attention positions inference long_context accounting debug",
    "training": "blocks models losses optimisation training parallelism adaptation mixtures tokens debug",
    "research": "attention long_context mixtures alignment foundations beyond",
}
LADDERS = {"gpt_screen": "inference", "decoding_ladder": "inference", "trainer_ladder": "training"}
LADDERS |= {"attention_ladder": "inference research", "numpy_ladder": "research"}  # which positions ask them more


def weight(kata: Kata, target: str) -> int:
    """How often an interview for this position asks a kata; 0 for one that the table does not know."""
    twice = kata.track in TARGETS[target].split() or target in LADDERS.get(kata.name, "").split()
    return ASKED.get(kata.name, (0,))[0] * (2 if twice else 1)


def most_asked_first(katas: Iterable[Kata], target: str = "all") -> list[Kata]:
    """These katas, by how often an interview for this position asks them; one that the table lacks comes last."""
    places = {name: place for place, name in enumerate(ASKED)}
    return sorted(katas, key=lambda kata: (-weight(kata, target), places.get(kata.name, len(places))))
