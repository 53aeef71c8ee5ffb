"""A family for a model that no family file describes: its decoder is found and checked, its image tokens are probed.

Nothing is taken on trust. A model is refused unless its decoder is a plain one: every layer can be read, what it adds
to the residual stream is what its attention writes, the logits are rebuilt, later tokens are not seen, and pictures and
words enter through the embeddings alone, where they can be hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from transformers import ProcessorMixin
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from ...errors import ModelError
from ..encoding import with_response
from ..families.family import (
    Arguments,
    Family,
    ModelConfig,
    PictureCells,
    ProcessorOutput,
    Size,
    deepstack,
    deepstack_rows,
    soft_capped,
    with_deepstack,
)
from ..families.refused import OPEN, REFUSED
from ..family_choice import PROBE
from ..layer import Layer
from ..mixer import mixer_of
from ..model import Lvlm
from .probe import GREY, Probe, prompt_inputs

STATUS = "probed: no family file describes this model; where its image tokens look was found by painting patterns"
_SIZE = (160, 120)  # of the picture that a model is checked with
_CLOSE = 1e-3  # relative error of what has to be equal
_ADDED = {"deepstack_visual_embeds", "visual_pos_masks"}  # beside embeddings, what is known to be hidden with them
_OWN = {"inputs_embeds", "input_ids"}


def unprobed(config: ModelConfig, name: str) -> Family:
    """What is known about a model before it is probed, or an error if its configuration says that it cannot be."""
    kind = config.model_type
    if kind not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise ModelError(f"{name} is a {kind!r} model, which takes no pictures; --family {PROBE} is for models that do")
    if kind in REFUSED and REFUSED[kind] not in OPEN:
        raise ModelError(f"{name} is a {kind!r} model, which cannot be explained: {REFUSED[kind]}")
    capped = getattr(config.get_text_config(), "attn_logit_softcapping", None)  # SDPA has none
    return Family(
        name=f"probed {kind}",
        model_types=(kind,),
        status=STATUS,
        cells=_unknown,
        pixel_mask=None,
        extras=deepstack,
        with_extras=with_deepstack,
        extra_rows=deepstack_rows,
        decoder=lambda model: model.get_submodule(_decoder_name(model, name)),
        kernel="eager" if capped else "sdpa",
        probed=True,
    )


def probed(lvlm: Lvlm) -> Lvlm:
    """The same model with a family that was found by probing, or an error that says what is in the way."""
    model, token = lvlm.model, lvlm.image_token_id
    if token is None:
        raise ModelError(f"{lvlm.name} cannot be probed: its configuration names no image token (image_token_id)")
    if not getattr(lvlm.processor, "chat_template", None):
        raise ModelError(f"{lvlm.name} cannot be probed: it has no chat template")
    place = _decoder_name(model, lvlm.name)
    draft = replace(lvlm.family, decoder=lambda model: model.get_submodule(place))
    found = _Check(replace(lvlm, family=draft)).family()
    probe = Probe(replace(lvlm, family=found).seam, lvlm.processor, token)
    return replace(lvlm, family=replace(found, cells=probe.cells))


def _unknown(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    raise ModelError("this model has not been probed yet")


def _decoder_name(model: Any, name: str) -> str:
    """Dotted name of the module with the decoder's layers."""
    text, layers = model.config.get_text_config(), model.config.get_text_config().num_hidden_layers
    for place, module in model.named_modules():
        own = getattr(module, "layers", None)
        if isinstance(own, nn.ModuleList) and len(own) == layers and getattr(module, "config", None) is text:
            return place
    raise ModelError(f"{name} cannot be probed: it has no text decoder with a list of {layers} layers")


class _Check:
    """What the decoder of a drafted family does, on one small prompt."""

    def __init__(self, lvlm: Lvlm):
        self.lvlm = lvlm
        self.inputs = self._prompt(0)
        self.arguments = lvlm.seam.encode(self.inputs)

    def family(self) -> Family:
        """The family, completed, or an error."""
        self._only_embeddings_change()
        family = replace(self.lvlm.family, branch_norm=self._branch_norm())
        self.lvlm = replace(self.lvlm, family=family)
        self._updates_are_written_by_attention()
        family = replace(family, logits=self._logits(), response_ones=self._response_ones())
        return family

    def _prompt(self, seed: int) -> ProcessorOutput:
        noise = torch.randint(0, 256, (_SIZE[1] // 8, _SIZE[0] // 8, 3), generator=torch.Generator().manual_seed(seed))
        picture = (
            Image.fromarray(noise.to(torch.uint8).numpy()).resize(_SIZE)
            if seed
            else Image.new("RGB", _SIZE, (GREY,) * 3)
        )
        return prompt_inputs(self.lvlm.processor, [picture], self.lvlm.model)

    def _refuse(self, reason: str) -> ModelError:
        return ModelError(f"{self.lvlm.name} cannot be probed: {reason}")

    def _only_embeddings_change(self) -> None:
        """With another picture, and with another word, nothing but what padding replaces may change."""
        other = self.lvlm.seam.encode(self._prompt(1))
        if changed := _changed(self.arguments, other, _OWN | _ADDED):
            raise self._refuse(f"pictures reach its decoder through {changed!r}, where they cannot be hidden")
        ids = self.inputs["input_ids"].clone()
        ids[0, -1] = self.lvlm.seam.pad_id
        other = self.lvlm.seam.encode({**self.inputs, "input_ids": ids})
        if changed := _changed(self.arguments, other, _OWN):
            raise self._refuse(f"words reach its decoder through {changed!r}, where they cannot be hidden")

    @torch.no_grad()
    def _branch_norm(self) -> str:
        """The module that reads what the projection of the first layer gives before it is added, if there is one."""
        layer = self.lvlm.seam.layers[0]
        written: list[Tensor] = []
        found: list[str] = []

        def read(name: str) -> Any:
            def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
                if written and args and isinstance(args[0], Tensor) and _close(args[0], written[-1]):
                    found.append(name)

            return hook

        handles = [mixer_of(layer).projection.register_forward_hook(lambda m, a, out: written.append(out))]
        handles += [child.register_forward_pre_hook(read(name)) for name, child in layer.named_children()]
        try:
            self.lvlm.seam.decoder(**self.arguments)
        finally:
            for handle in handles:
                handle.remove()
        return found[0] if found else ""

    @torch.no_grad()
    def _updates_are_written_by_attention(self) -> None:
        """Some module of each layer reads residual + update, or the layer ends in it, alone or with an MLP's output."""
        seam = self.lvlm.seam
        read: list[Tensor] = []  # by modules of the layer that is running
        read_by_layer: list[tuple[list[Tensor], Tensor]] = []  # and what the layer gave
        decoder = seam.decoder

        def inside(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            read.extend(value for value in [*args, output] if isinstance(value, Tensor))

        def end(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            read_by_layer.append((list(read), output[0] if isinstance(output, tuple) else output))
            read.clear()

        handles = [child.register_forward_hook(inside) for layer in seam.layers for child in layer.children()]
        handles += [layer.register_forward_hook(end) for layer in seam.layers]
        layers: list[Layer] = []
        try:
            with seam.capture(layers.append):
                decoder(**self.arguments)
        finally:
            for handle in handles:
                handle.remove()
        for layer, (values, output) in zip(layers, read_by_layer, strict=True):
            after = layer.residual + layer.update
            mixed = [output[0] - value[0] for value in values if value.shape == output.shape]
            same = [value[0] for value in values if value.shape[1:] == after.shape]
            if not any(_close(value, after) for value in [*same, *mixed, output[0]]):
                raise self._refuse(
                    f"layer {layer.index} adds something else to the residual stream than its attention writes"
                )

    @torch.no_grad()
    def _logits(self) -> Any:
        """What the model does to the logits of its head: nothing, a factor, or a soft cap."""
        refusal = self._refuse("its logits are not those of its output embedding")
        own = self.lvlm.model(**self.inputs, use_cache=False).logits[0].float()
        text = self.lvlm.model.config.get_text_config()
        hidden = self.lvlm.seam.decoder(**self.arguments).last_hidden_state[0]
        if (head := self.lvlm.seam.head) is None:
            raise refusal
        ours = head(hidden).float()
        if own.shape != ours.shape:
            raise refusal
        factor = float((own * ours).sum() / (ours * ours).sum().clamp_min(1e-30))
        if _close(ours, own):
            return lambda text, logits: logits
        if getattr(text, "final_logit_softcapping", None) and _close(soft_capped(text, ours), own):
            return soft_capped
        if _close(ours * factor, own):
            return lambda text, logits: logits * factor
        raise refusal

    @torch.no_grad()
    def _response_ones(self) -> tuple[str, ...]:
        """The inputs that mark response tokens, so that none of them sees a later one."""
        prompt = self.inputs["input_ids"][0].tolist()
        words = [token for token in prompt if token != self.lvlm.image_token_id][:4]
        for names in _marks(self.lvlm.family, self.inputs):
            lvlm = replace(self.lvlm, family=replace(self.lvlm.family, response_ones=names))
            hidden = [
                lvlm.seam.decoder(**lvlm.seam.encode(with_response(lvlm, self.inputs, ids))).last_hidden_state[0, :-1]
                for ids in ([*prompt, *words], [*prompt, *words[:-1], lvlm.seam.pad_id])
            ]
            if _close(hidden[0][len(prompt) :], hidden[1][len(prompt) :]):
                return names
        raise self._refuse("its decoder lets tokens of the response see later ones")


def _marks(family: Family, inputs: ProcessorOutput) -> Iterator[tuple[str, ...]]:
    yield family.response_ones
    if "token_type_ids" in inputs:
        yield (*family.response_ones, "token_type_ids")


def _changed(one: Arguments, other: Arguments, known: set[str]) -> str:
    """The first argument that differs, apart from known ones; empty if there is none."""
    names = (name for name in one | other if name not in known)
    return next((name for name in names if not _equal(one.get(name), other.get(name))), "")


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and bool(torch.equal(one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, bool | int | float | str):
        return one == other
    return type(one) is type(other)  # such as caches, which are empty here


def _close(one: Tensor, other: Tensor) -> bool:
    """Equal up to rounding, which is coarser in half precision."""
    if one.shape != other.shape:
        return False
    limit = _CLOSE if one.dtype == torch.float32 else 20 * _CLOSE
    gap, size = (one.float() - other.float()).norm(), other.float().norm()
    return float(gap) <= limit * float(size) + 1e-6
