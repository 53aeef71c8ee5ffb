"""A key-value cache with room to grow, so that a step writes one token per row instead of copying all earlier ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

ROOM = 64  # further positions that are allocated at once


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer: views into larger tensors."""

    keys: Tensor
    values: Tensor
    wide_keys: Tensor
    wide_values: Tensor

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        start = self.get_seq_length()
        stop = start + key_states.shape[-2]
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if start == 0 or stop > self.wide_keys.shape[-2]:
            self.wide_keys = _widened(self.keys, key_states, start, stop + ROOM)
            self.wide_values = _widened(self.values, value_states, start, stop + ROOM)
        self.wide_keys[:, :, start:stop] = key_states
        self.wide_values[:, :, start:stop] = value_states
        return self._show(stop)

    def batch_select_indices(self, indices: Tensor) -> None:
        length = self.get_seq_length()
        self.wide_keys, self.wide_values = self.wide_keys[indices], self.wide_values[indices]
        self._show(length)

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        self.keys, self.values = self.wide_keys[:, :, :length], self.wide_values[:, :, :length]
        return self.keys, self.values


def _widened(old: Tensor, new: Tensor, start: int, width: int) -> Tensor:
    wide = torch.empty(*new.shape[:2], width, new.shape[3], dtype=new.dtype, device=new.device)
    if start:
        wide[:, :, :start] = old
    return wide


def growing_cache() -> Cache:
    """An empty cache."""
    return Cache(layer_class_to_replicate=GrowingLayer)
