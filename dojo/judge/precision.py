"""Matrix products with all bits of their dtype, in the judge and in its workers.

A GPU may compute those of float32 in TF32, with ten bits of fraction, and add up those of bfloat16 and float16 in their
own dtype; a CPU may take bfloat16 for float32. Convolutions of float32 are in TF32 unless one says otherwise.
https://pytorch.org/docs/stable/notes/numerical_accuracy.html
"""

from __future__ import annotations

from torch import backends, set_float32_matmul_precision


def full() -> None:
    """Have every product computed in full, whatever was set before."""
    # These words, and not the newer `fp32_precision`: an attempt that reads them after that would get an error.
    set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = False
    if backends.fp32_precision != "none":  # type: ignore[attr-defined]  # torch replaces the module
        backends.fp32_precision = "none"  # type: ignore[attr-defined]
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    backends.cuda.matmul.allow_fp16_accumulation = False


def setting() -> list[str]:
    """What is set now, to be compared."""
    matmul = backends.cuda.matmul
    reduced = matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction
    others = backends.cudnn.conv, backends.mkldnn.matmul  # type: ignore[attr-defined]  # torch replaces these modules
    of_float32 = (each.fp32_precision for each in (backends, matmul, *others))
    return [*of_float32, *map(str, (*reduced, matmul.allow_fp16_accumulation))]
