"""A stand-in for GPUs: tensors stay in RAM, but each is labelled with a device, and mixing devices is an error. So is
float64 on a device that has none, such as Apple's.

Follows PyTorch's rules: operations need all tensors on one device; numbers (0 dimensions) and indices may be on the
CPU; copies and `to` cross devices. What PyTorch does inside one operation, such as a backward pass, is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from vtrace.lvlm.gradients import overridden

CPU = torch.device("cpu")
NARROW = ("mps", "xpu")  # have no float64


class PretendGpus(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self._places = WeakTensorKeyDictionary()

    def place(self, tensor: Tensor) -> torch.device:
        return self._places.get(tensor, CPU)

    def put(self, result: Any, device: torch.device) -> Any:
        """Label every tensor of a result."""

        def label(value: Any) -> Any:
            if isinstance(value, Tensor):
                if device.type in NARROW and value.dtype == torch.float64:
                    raise TypeError(f"Cannot convert a tensor on {device} to float64: it does not support float64")
                self._places[value] = device
            return value

        return tree_map(label, result)

    def moved(self, tensor: Tensor, device: torch.device) -> Tensor:
        return tensor if self.place(tensor) == device else self.put(tensor.clone(), device)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if func == Tensor.device.__get__:
            return self.place(args[0])
        if func == Tensor.is_cuda.__get__:
            return self.place(args[0]).type == "cuda"
        if name == "to":
            return self._to(*args, **kwargs)
        if name == "cpu":
            return self.moved(args[0], CPU)
        if name == "__deepcopy__":  # its other argument holds what was copied before, wherever that is
            return self.put(func(*args, **kwargs), self.place(args[0]))
        if name in ("numpy", "__array__") and self.place(args[0]) != CPU:
            raise TypeError("can't convert a tensor of a GPU to numpy; use Tensor.cpu() first")
        asked = kwargs.get("device")
        if asked is not None:
            kwargs["device"] = CPU
        if name == "grad":  # of torch.autograd: one result for each input
            wanted = args[1] if len(args) > 1 else kwargs["inputs"]
            found = func(*args, **kwargs)
            many = [wanted] if isinstance(wanted, Tensor) else wanted
            for gradient, of in zip(found, many, strict=True):
                self.put(gradient, self.place(of))
            return found
        here = self._common(name, args, kwargs)
        result = func(*args, **kwargs)
        if name.startswith("__set") or (name.endswith("_") and not name.endswith("__")):
            return result  # in place: labelled already
        result = [*result] if name == "__iter__" else result
        labelled = self.put(result, here if asked is None else torch.device(asked))
        return iter(labelled) if name == "__iter__" else labelled

    def _to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        options, device = [], kwargs.pop("device", None)
        for value in args:
            if isinstance(value, Tensor):
                device, kwargs["dtype"] = self.place(value), value.dtype
            elif isinstance(value, str | torch.device | int) and not isinstance(value, bool):
                device = value
            else:
                options.append(value)
        here = self.place(tensor)
        kwargs.pop("non_blocking", None)
        out = tensor.to(*options, **kwargs) if options or kwargs else tensor
        if out is not tensor:
            self.put(out, here)
        return out if device is None else self.moved(out, torch.device(device))

    def _common(self, name: str, args: tuple, kwargs: dict) -> torch.device:
        """The device of an operation, if its tensors may be used together."""
        if name == "copy_":
            return self.place(args[0])
        parts, _ = tree_flatten((args, kwargs))
        tensors = [part for part in parts if isinstance(part, Tensor)]
        places = {self.place(t) for t in tensors if not (t.ndim == 0 and self.place(t) == CPU)}
        if name in ("__getitem__", "__setitem__") and isinstance(args[0], Tensor):
            own = self.place(args[0])
            index, _ = tree_flatten(args[1])
            chosen = [part for part in index if isinstance(part, Tensor)]
            places = {own} | {self.place(t) for t in chosen} - {CPU}
            value = args[2] if len(args) > 2 else None
            if isinstance(value, Tensor) and value.ndim and chosen:
                places.add(self.place(value))
        if len(places) > 1:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {name} found {sorted(map(str, places))}"
            )
        return next(iter(places), CPU)


@contextmanager
def spread(model: nn.Module, devices: dict[str, str]) -> Iterator[PretendGpus]:
    """While open, the modules of a model are on these pretended devices, and move what they are called with there, as
    accelerate's hooks do."""
    gpus = PretendGpus()
    forwards = {}
    for name, device in devices.items():
        module, place = model.get_submodule(name), torch.device(device)
        gpus.put([*module.parameters(), *module.buffers()], place)
        forwards[module] = _moving(gpus, module.forward, place)
    with overridden(forwards), gpus:
        yield gpus


def _moving(gpus: PretendGpus, forward: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    def move(value: Any) -> Any:
        return gpus.moved(value, device) if isinstance(value, Tensor) else value

    return lambda *args, **kwargs: forward(*tree_map(move, args), **tree_map(move, kwargs))
