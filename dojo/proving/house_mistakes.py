"""Mistakes against the house rules that any kata can be given: each is the solution with a wrapper around its calls.

`wrapped(kata, mistake)` is the text of such an attempt: master, the source of the wrapper, which makes each call, and
the lines that put it around every function and module that the kata asks for. The kill matrix of a kata takes them for
the checks that no mistake of its own fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from dojo.content.catalog import Kata
from dojo.content.master import names_in_all, read_text


def floats(args, kwargs):
    return [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.is_floating_point()]


def tensors(args, kwargs):
    return [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) or type(v).__name__ == "ndarray"]


def own_dtype(args, kwargs):
    weights = [p for each in args if isinstance(each, torch.nn.Module) for p in each.parameters()]
    return next((v.dtype for v in (*floats(args, kwargs), *weights)), torch.float32)


def input_overwritten(call, args, kwargs):
    result = call(*args, **kwargs)
    with torch.no_grad():
        for value in tensors(args, kwargs):
            value[...] = ~value if "bool" in str(value.dtype) else value * 2
    return result


def generator_seeded(call, args, kwargs):
    torch.manual_seed(0)
    return call(*args, **kwargs)


def off_by_a_tenth(call, args, kwargs):
    result = call(*args, **kwargs)
    if isinstance(result, Tensor):
        return ~result if result.dtype == torch.bool else result * 1.1
    if isinstance(result, dict):
        return {name: value + 1 for name, value in result.items()}
    return result + 1


def detached(call, args, kwargs):
    return call(*args, **kwargs).detach()


def array_of_numpy(call, args, kwargs):
    import numpy

    torch.as_tensor(numpy.zeros(1))
    return call(*args, **kwargs)


def widened(call, args, kwargs):
    return call(*args, **kwargs).astype("float64")


def warning_at_run_time(call, args, kwargs):
    import warnings

    warnings.warn("divide by zero encountered in log", RuntimeWarning, stacklevel=1)
    return call(*args, **kwargs)


def wrong_in_half_precision(call, args, kwargs):
    factor = 3.0 if own_dtype(args, kwargs) in (torch.float16, torch.bfloat16) else 1.0
    return call(*args, **kwargs) * factor


def wrong_in_float64(call, args, kwargs):
    result = call(*args, **kwargs)
    return result * 1.1 if "float64" in str(result.dtype) else result


def infinite_for_large_inputs(call, args, kwargs):
    result = call(*args, **kwargs)
    large = result.dtype is torch.float16 and any(v.abs().max() > 200 for v in floats(args, kwargs))
    return result * torch.inf if large or (not tensors(args[1:], {}) and result.dtype is torch.float16) else result


def wrong_for_one_token(call, args, kwargs):
    result = call(*args, **kwargs)
    odd = any(1 in v.shape or v.ndim not in (2, 3) for v in tensors(args, kwargs))
    return result * 2 if odd else result


def dense_memory_assumed(call, args, kwargs):
    result = call(*args, **kwargs)
    dense = all(v.is_contiguous() if isinstance(v, Tensor) else v.flags.c_contiguous for v in tensors(args, kwargs))
    return result if dense else result * 2


def result_kept_for_the_same_object(call, args, kwargs, kept={}):  # noqa: B006  # from one call to the next
    key = call, *map(id, args)
    if key not in kept:
        kept[key] = args, call(*args, **kwargs)
    return kept[key][1]


def loop_over_every_row(call, args, kwargs):
    sizes = [size for v in tensors(args, kwargs) for size in v.shape]
    sizes += [v for v in args if isinstance(v, int)]
    modules = [each for each in args if isinstance(each, torch.nn.Module)]
    sizes += [size for each in modules for p in each.parameters() for size in p.shape]
    for _ in range(2 * sum(sizes)):
        torch.zeros(1)
    return call(*args, **kwargs)


def table_of_all_pairs(call, args, kwargs):
    sizes = [size for v in tensors(args, kwargs) for size in v.shape] + [v for v in args if isinstance(v, int)]
    torch.zeros(max(sizes), 100 * max(sizes))
    return call(*args, **kwargs)


def a_hundred_times_over(call, args, kwargs):
    for _ in range(100):
        result = call(*args, **kwargs)
    return result


def table_left_on_the_cpu(call, args, kwargs):
    result = call(*args, **kwargs)
    return result + torch.ones(result.shape, dtype=result.dtype, device="cpu") * 0


def other_arguments_in_another_order(call, args, kwargs):
    if len(args) > 2:
        args = (*args[:-2], args[-1], args[-2])
    return call(*args, **kwargs)


def arguments_by_position_alone(call, args, kwargs):
    if kwargs:
        raise TypeError("arguments go by position")
    return call(*args)


def made_for_the_first_shape(call, args, kwargs, first={}):  # noqa: B006  # by what is called
    shapes = [v.shape for v in tensors(args, kwargs)]
    alike = shapes == first.setdefault(call, shapes)
    result = call(*args, **kwargs)
    return result if alike else result * 2


CALLS: dict[str, Callable] = {
    each.__name__.replace("_", " "): each
    for each in (
        off_by_a_tenth, detached, array_of_numpy, widened, warning_at_run_time, wrong_in_half_precision,
        wrong_in_float64, infinite_for_large_inputs, wrong_for_one_token, dense_memory_assumed, input_overwritten,
        generator_seeded, result_kept_for_the_same_object, made_for_the_first_shape, loop_over_every_row,
        table_of_all_pairs, table_left_on_the_cpu, other_arguments_in_another_order, arguments_by_position_alone,
        a_hundred_times_over,
    )
}  # fmt: skip


SLOW = "a hundred times over"


class ExtraParameter:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_parameter("extra", torch.nn.Parameter(torch.zeros(1)))


class PersistentBuffer:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("table", torch.zeros(1))


class SeededAtConstruction:
    def __init__(self, *args, **kwargs):
        torch.manual_seed(0)
        super().__init__(*args, **kwargs)


class DtypeIgnored:
    def __init__(self, *args, device=None, dtype=None, **kwargs):
        super().__init__(*args, **kwargs)


class OtherInEvaluation:
    def forward(self, *args, **kwargs):
        result = super().forward(*args, **kwargs)
        return result if self.training else result * 1.1


class SpoiledByACast:
    def _apply(self, fn, recurse=True):
        self.factor = 1.1
        return super()._apply(fn, recurse)

    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs) * getattr(self, "factor", 1.0)


class FirstWeightsKept:
    def forward(self, *args, **kwargs):
        if not torch.is_grad_enabled() and not self.training:
            if "kept" not in self.__dict__:
                self.__dict__["kept"] = {name: p.detach().clone() for name, p in self.named_parameters()}
            for name, p in self.named_parameters():
                p.data = self.__dict__["kept"][name].to(p)
        return super().forward(*args, **kwargs)


class ArgumentsInAnotherOrder:
    def __init__(self, *args, **kwargs):
        super().__init__(*reversed(args), **kwargs)


class NormsStartAtAHalf:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name, parameter in self.named_parameters():
            if "norm" in name:
                parameter.data.fill_(0.5)


class LoopAtConstruction:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for size in (*args, *kwargs.values()):
            for _ in range(2 * size if isinstance(size, int) else 0):
                torch.zeros(1)


MODULES: dict[str, type] = {
    "".join(f" {c.lower()}" if c.isupper() else c for c in each.__name__).strip(): each
    for each in (
        ExtraParameter, PersistentBuffer, SeededAtConstruction, DtypeIgnored, OtherInEvaluation, SpoiledByACast,
        FirstWeightsKept, ArgumentsInAnotherOrder, NormsStartAtAHalf, LoopAtConstruction,
    )
}  # fmt: skip


def wrapped(kata: Kata, mistake: str) -> str:
    """The kata's solution with this mistake around everything that it asks for."""
    wrapper = CALLS.get(mistake) or MODULES[mistake]
    parts = [read_text(kata.master), "import dataclasses\nimport torch\nfrom torch import Tensor, nn"]
    parts += map(inspect.getsource, (floats, tensors, own_dtype, wrapper, _around))
    parts += [f"{name} = _around({name}, {wrapper.__name__})" for name in names_in_all(kata)]
    return "\n\n\n".join(parts) + "\n"


def _around(made, wrapper):
    if isinstance(wrapper, type):
        return type(made.__name__, (wrapper, made), {}) if isinstance(made, type) else made
    if isinstance(made, type) and not issubclass(made, torch.nn.Module):
        return made  # a dataclass
    call = made.forward if isinstance(made, type) else made

    def wrong(*args, **kwargs):
        return wrapper(call, args, kwargs)

    return type(made.__name__, (made,), {"forward": wrong}) if isinstance(made, type) else wrong
