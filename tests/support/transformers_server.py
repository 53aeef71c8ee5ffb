"""A really running `transformers serve` with an embedded model, on loopback.

The server is transformers' own. Its processor is read by our loader, because transformers' needs torchvision for the
video processors that these checkpoints do not use.
"""

from __future__ import annotations

import socket
import sys

from transformers import AutoProcessor

from vtrace.lvlm.checkpoint import read_config
from vtrace.lvlm.checkpoint_source import EMBEDDED
from vtrace.lvlm.checkpoint_source import find_checkpoint as find
from vtrace.lvlm.processor import load_processor


def main(name: str, port: int) -> None:
    from transformers.cli.serve import Serve

    def read_processor(source: str, **options: object) -> object:
        return load_processor(source, read_config(find(source), source).model_type)

    AutoProcessor.from_pretrained = read_processor
    Serve(str(EMBEDDED[name]), device="cpu", dtype="float32", host="127.0.0.1", port=port)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
