"""What verl lacks on a machine without GPUs: a platform, and processors without torchvision.

Loaded into every process by VERL_USE_EXTERNAL_MODULES, before anything asks verl for its platform.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import torch
from transformers import AutoConfig, AutoProcessor
from verl.plugin.platform import PlatformBase, PlatformRegistry
from verl.utils import distributed

from vtrace.lvlm.processor import load_processor


class _Cpu(ModuleType):
    """`torch.cpu` with what verl asks of `torch.cuda`, all of which does nothing here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name, lambda *args, **options: 0)

    def is_available(self) -> bool:
        return False

    def get_device_name(self, *args: Any) -> str:
        return "CPU"  # verl looks its speed up

    def mem_get_info(self) -> tuple[int, int]:
        return 0, 0

    def get_rng_state(self, *args: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *args: Any) -> None:
        torch.set_rng_state(state)


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """Processes with gloo. Ray is told that there are GPUs, because verl's resource pools count nothing else."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _Cpu("torch_cpu_for_verl")

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return "cpu"  # verl moves tensors to it

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None: ...


def _processor_without_torchvision(name: str, **options: Any) -> Any:
    """verl knows processors by the names of their classes, so the image-only one takes the name of the whole one."""
    found = load_processor(name, AutoConfig.from_pretrained(name).model_type)
    type(found).__name__ = type(found).__name__.removeprefix("ImageOnly")
    return found


AutoProcessor.from_pretrained = _processor_without_torchvision
# verl asks for gloo on the CPU and for the platform's backend beside it, which here is the same device twice.
distributed.initialize_global_process_group_ray = partial(
    distributed.initialize_global_process_group_ray, backend="gloo"
)
