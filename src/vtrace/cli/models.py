"""`vtrace models`."""

from __future__ import annotations

import json as jsonlib

from .options import JsonOption

MODELS_EXAMPLE = "Example:  vtrace models --json | jq '.image_text_types[] | select(.supported) | .model_type'"


def models_command(json: JsonOption = False) -> None:
    """List supported model families and how each was verified, and all other image-text model types of the installed
    transformers with the reason why not."""
    from ..lvlm.checkpoint_source import EMBEDDED
    from ..lvlm.families.supported import FAMILIES, image_text_types
    from ..lvlm.joined import JOINED
    from ..lvlm.pretrained import PACKAGED

    types = image_text_types()
    if json:
        facts = {
            "families": [{"name": f.name, "model_types": list(f.model_types), "status": f.status} for f in FAMILIES],
            "image_text_types": [one._asdict() for one in types],
            "embedded": list(EMBEDDED),
            "packaged": {name: model.requirement for name, model in PACKAGED.items()},
            "joined": {name: model.base for name, model in JOINED.items()},
        }
        print(jsonlib.dumps(facts, indent=1))
        return
    from rich.table import Table

    from .terminal import Terminal

    refused: dict[str, list[str]] = {}
    for one in sorted(types):
        if not one.supported:
            refused.setdefault(one.status, []).append(one.model_type)
    supported = Table("family", "model types", "status", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for family in FAMILIES:
        supported.add_row(family.name, ", ".join(family.model_types), family.status)
    others = Table("not supported", "reason", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for reason, kinds in refused.items():
        others.add_row(", ".join(kinds), reason)
    Terminal().print(supported, "")
    Terminal().print(others, "")
    count = sum(one.supported for one in types)
    print(f"{count} of {len(types)} image-text model types of the installed transformers are supported.")
    print(f"Embedded models: {', '.join(EMBEDDED)}")
    for name, model in PACKAGED.items():
        print(f"Pretrained, from the PyPI package {model.requirement}: {name}")
    for name, joined in JOINED.items():
        print(f"A pretrained decoder, {joined.base}, that was taught to see Shapes: {name}")
    print("Memory and passes of a model: vtrace doctor --model NAME")
