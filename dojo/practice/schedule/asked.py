"""How often interviews ask each kata: what a plan chooses by.

One table, and no line in each master's header: the ranks come from one survey, of six collections of interview
questions and the exercises of other projects; they are judged side by side and change together. None of these publishes
counts, so a weight is 3 for what several call frequent, 2 for what two of them or most projects have, 1 for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from dojo.content.catalog import Kata

RANKS = {  # weight: katas, the most asked first
    3: """
        softmax sdpa mha kv_cache sampling cross_entropy gqa rope debug_lm gpt_screen lm_loss adamw grpo lora ppo dpo
        bpe_train bpe_encode beam_search
    """,
    2: """
        causal_mask causal_attention rmsnorm layernorm swiglu gae moe router block lm speculative flash_attention
        attention_backward autograd gradients conv2d batchnorm kl_estimators schedules window_attention contrastive
        debug_decoding reward_model manual_backprop numpy_attention numpy_ladder generate batching data_loader quantize
        paged_attention mixed_precision mla checkpointing ddp gpt2 kmeans packing debug_trainer distillation
        trainer_ladder
    """,
    1: """
        rope_scaling linear embedding mqa activations gelu_ffn absolute_positions alibi accounting encoder_layer
        decoder_layer encoder seq2seq dropout linear_cross_entropy tensor_parallel logistic_regression
        decoding_ladder
    """,
}
WEIGHTS = {name: weight for weight, names in RANKS.items() for name in names.split()}
TARGETS = {  # the tracks that an interview for such a position asks twice as often
    "all": "",
    "inference": "attention positions inference long_context accounting debug",
    "training": "blocks models losses optimisation training parallelism adaptation mixtures tokens debug",
    "research": "attention long_context mixtures alignment foundations beyond",
}


def most_asked_first(katas: Iterable[Kata], target: str = "all") -> list[Kata]:
    """These katas, by how often an interview for this position asks them; one without a rank comes last."""
    places, tracks = [*WEIGHTS], TARGETS[target].split()

    def order(kata: Kata) -> tuple[int, int]:
        weight = WEIGHTS.get(kata.name, 0) * (2 if kata.track in tracks else 1)
        return -weight, places.index(kata.name) if kata.name in WEIGHTS else len(places)

    return sorted(katas, key=order)
