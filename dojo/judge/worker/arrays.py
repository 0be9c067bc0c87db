"""NumPy's arrays in a worker whose torch is deaf to NumPy: what an attempt in NumPy is given, and what it gives back.

A message holds tensors. Each has an array beside it that owns its memory, with the same strides: it is filled before a
call and read after it, without any operation of torch, so that whatever torch does is the attempt's own doing.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import memmove
from typing import Any

import torch
from torch import Tensor

from dojo.judge.protocol import DTYPES, mapped, tensors_in

BESIDE = "array_beside"  # the attribute of a tensor that holds its array: the same object at each call


class Arrays:
    """What a function of arrays gave, as it is: it becomes tensors where it is sent, and not within a call."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def as_tensors(self) -> Any:
        """The same with a tensor for each array and each number of NumPy; what no tensor can hold is left as it is."""
        return mapped(_tensor_of, self.value)

    def overwrite(self) -> None:
        """Zeros in every array, as its owner may."""
        mapped(lambda value: value.fill(0) if type(value).__name__ == "ndarray" else None, self.value)


def in_arrays(function: Callable[..., Any]) -> Callable[..., Arrays]:
    """The function called with arrays where it is given tensors, which then hold what it left in the arrays."""

    def called(*args: Any, **kwargs: Any) -> Arrays:
        tensors = tensors_in([args, kwargs])
        for tensor in tensors:
            _copy(tensor, back=False)
        given, named = mapped(lambda v: getattr(v, BESIDE)[1] if isinstance(v, Tensor) else v, (args, kwargs))
        result = function(*given, **named)
        for tensor in tensors:
            _copy(tensor, back=True)
        return Arrays(result)

    return called


def in_arrays_drawing(function: Callable[..., Any]) -> Callable[..., Arrays]:
    """The same of a function whose last argument is NumPy's generator: what it is given of that is the seed."""

    def called(*args: Any) -> Any:
        import numpy

        return function(*args[:-1], numpy.random.default_rng(args[-1]))

    return in_arrays(called)


def _copy(tensor: Tensor, back: bool) -> None:
    """The bytes that a tensor spans into the array beside it, which is made where there is none, or back."""
    if not hasattr(tensor, BESIDE):
        setattr(tensor, BESIDE, _made(tensor))
    flat, _ = getattr(tensor, BESIDE)
    here, there = flat.__array_interface__["data"][0], tensor.data_ptr()
    target, source = (there, here) if back else (here, there)
    memmove(target, source, flat.nbytes)


def _made(tensor: Tensor) -> tuple[Any, Any]:
    """The memory of an array for this tensor, and the array."""
    import numpy

    shape, strides = tuple(tensor.shape), tensor.stride()
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if tensor.numel() else 0
    flat = numpy.zeros(span, str(tensor.dtype).removeprefix("torch."))
    size = flat.itemsize
    return flat, numpy.ndarray(shape, flat.dtype, flat, strides=[size * stride for stride in strides])


def _tensor_of(value: Any) -> Any:
    dtype = DTYPES.get(str(getattr(value, "dtype", "")))
    if type(value).__module__ != "numpy" or dtype is None:
        return value
    data = bytearray(value.tobytes())
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(value.shape)
