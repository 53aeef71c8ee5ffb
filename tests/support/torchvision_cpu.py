"""Lets the torchvision of PyPI, which is built for CUDA, be imported beside the CPU build of PyTorch: `pytest -p
support.torchvision_cpu`. Its compiled operations do not load; these two are looked up when it is imported, and pictures
need none of them."""

from __future__ import annotations

import torch

LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
