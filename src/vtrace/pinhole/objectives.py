"""Training objectives of the embedded models: recognise what each visual token shows, then answer questions."""

from __future__ import annotations

import random
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..benchmarks.shapes.scene import SHAPE_COLOURS, SHAPES, Scene, World
from .recipe import Recipe, Stage, Vision
from .training_batches import IGNORE, Packer, training_scenes, vision_labels

SMOOTHING = 0.03  # keeps likelihoods below 1; at 1, single patches would no longer matter
OBJECTS = (6, 10)  # minimum and maximum number of things in a scene


class Loss(NamedTuple):
    """The loss of a batch, and further values to log."""

    value: Tensor
    facts: dict[str, float]


class Seer(nn.Module):
    """The vision tower with read-outs for each visual token: colour, shape, and optionally row and column."""

    def __init__(self, model: PreTrainedModel, recipe: Recipe, world: World):
        super().__init__()
        self.visual = recipe.tower(model)
        self._see = partial(recipe.see, model)  # not the model itself: its parameters are not the tower's
        self.recipe, self.world = recipe, world
        width, classes = model.config.text_config.hidden_size, (len(SHAPE_COLOURS) + 1, len(SHAPES) + 1, 5, 5)
        self.heads = nn.ModuleList(nn.Linear(width, count) for count in classes[: recipe.readouts])

    def loss(self, seed: str, images: int) -> Loss:
        batch = training_scenes(random.Random(seed), images, OBJECTS, self.world)
        return self.read_out(self.see(self.recipe.draw(batch)).tokens, batch)

    def see(self, pixels: dict[str, Tensor]) -> Vision:
        return self._see(pixels)

    def read_out(self, tokens: Tensor, batch: list[Scene]) -> Loss:
        labels = self.recipe.in_token_order(vision_labels(batch)).flatten(0, 1)
        logits = [head(tokens) for head in self.heads]
        losses = [F.cross_entropy(x, y) for x, y in zip(logits, labels.T[: len(logits)], strict=True)]
        full = (labels[:, 0] < len(SHAPE_COLOURS)) & (labels[:, 0] != IGNORE)
        hits = (logits[1].argmax(-1) == labels[:, 1])[full].float().mean()
        return Loss(torch.stack(losses).sum(), {"shape_seen": hits.item()})


class Reasoner(nn.Module):
    """The whole model on packed questions. The loss covers response tokens and the vision read-outs.

    Without the read-outs the tower forgets within a few hundred steps: a decoder that cannot yet use its image tokens
    sends back noise, and Muon turns noise into full-sized updates.
    """

    def __init__(self, model: PreTrainedModel, seer: Seer, packer: Packer, stage: Stage):
        super().__init__()
        self.model = model
        self.seer, self.packer, self.stage = seer, packer, stage

    def loss(self, seed: str, images: int) -> Loss:
        rng = random.Random(seed)
        shown = training_scenes(rng, images, OBJECTS, self.stage.world)
        batch = self.packer.pack(shown, rng, self.stage.often)
        core, recipe = self.model.model, self.packer.recipe
        seen, others = self.seer.see(batch.pixels)
        image = batch.ids == self.packer.image
        if recipe.mark_image:
            others[recipe.mark_image] = image
        embeds = core.language_model.embed_tokens(batch.ids).masked_scatter(image[..., None], seen)
        positions = batch.positions if len(batch.positions) > 1 else batch.positions[0]
        hidden = core.language_model(
            inputs_embeds=embeds, position_ids=positions, attention_mask=batch.mask, **others
        ).last_hidden_state
        keep = batch.labels != IGNORE
        logits, labels = self.model.lm_head(hidden[keep]), batch.labels[keep]
        hits = (logits.argmax(-1) == labels).float().mean()
        told = F.cross_entropy(logits, labels, label_smoothing=SMOOTHING)
        saw, facts = self.seer.read_out(seen, shown)
        total = told + self.stage.see_weight * saw
        return Loss(total, {"told": told.item(), "token_accuracy": hits.item(), **facts})
