"""Rows that trainers read: TRL's conversational rows and verl's Parquet rows, from one question with its pictures.

Both put the paper's system prompt first, which asks for a "Final answer:" line, and keep the pictures where the
question has them; a question without markers gets its pictures in front. The two render to the same prompt.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..tracing.defaults import SYSTEM_PROMPT
from ..types import Gold
from .gold import gold_to_json

if TYPE_CHECKING:
    import pyarrow

RowFormat = Literal["trl", "verl"]
TrainingRow = dict[str, Any]  # cells by column, as the trainer expects them
IMAGE_MARKER = "<image>"  # verl, EasyR1 and both datasets write a picture inside a text like this
_LEADING_MARKERS = re.compile(rf"^(?:\s*{IMAGE_MARKER})+\s*")


@dataclass(frozen=True)
class TrainingItem:
    """A question that a reward can be given for."""

    key: str  # unique: dataset, file and row
    source: str  # the dataset, and the one it came from if that is known
    question: str  # with one marker per picture
    images: tuple[bytes, ...]  # encoded, as in the dataset
    answer: str  # as in the dataset
    gold: Gold


def mark_pictures(question: str, pictures: int) -> str:
    """The question with its markers, or with one per picture in front if it has none. No blank follows a leading one,
    so that the prompt is that of the evaluations."""
    text = question.strip()
    if IMAGE_MARKER not in text:
        return IMAGE_MARKER * pictures + text
    leading = _LEADING_MARKERS.match(text)
    return IMAGE_MARKER * leading.group().count(IMAGE_MARKER) + text[leading.end() :] if leading else text


def trl_row(item: TrainingItem, system: str = SYSTEM_PROMPT) -> TrainingRow:
    """A row for `GRPOTrainer`. TRL puts the pictures in place of the image parts and passes the other columns to the
    reward."""
    return {
        "prompt": [
            {"role": "system", "content": [{"type": "text", "text": system}]},
            {"role": "user", "content": _parts(item.question)},
        ],
        "images": [{"bytes": data, "path": None} for data in item.images],
        "answer": item.answer,
        "gold": gold_to_json(item.gold),
        "source": item.source,
        "key": item.key,
    }


def verl_row(item: TrainingItem, index: int, system: str = SYSTEM_PROMPT) -> TrainingRow:
    """A row for verl, in the columns of its own example for Geometry3K."""
    return {
        "data_source": item.source,
        "prompt": [{"role": "system", "content": system}, {"role": "user", "content": item.question}],
        "images": [{"bytes": data, "path": None} for data in item.images],
        "ability": "visual reasoning",
        "reward_model": {"style": "rule", "ground_truth": item.answer},
        "extra_info": {
            "split": "train",
            "index": index,
            "question": item.question,
            "answer": item.answer,
            "gold": gold_to_json(item.gold),
            "key": item.key,
        },
    }


def _parts(question: str) -> list[dict[str, str]]:
    pieces = re.split(f"({IMAGE_MARKER})", question)
    return [{"type": "image"} if p == IMAGE_MARKER else {"type": "text", "text": p} for p in pieces if p]


def row_schema(form: RowFormat) -> pyarrow.Schema:
    """The Parquet schema of the rows, with the note by which `datasets` knows that the pictures are pictures."""
    import pyarrow as pa

    text = pa.string()
    content = pa.list_(pa.struct({"type": text, "text": text})) if form == "trl" else text
    prompt = pa.list_(pa.struct({"role": text, "content": content}))
    images = pa.list_(pa.struct({"bytes": pa.binary(), "path": text}))
    if form == "trl":
        columns = {"prompt": prompt, "images": images, "answer": text, "gold": text, "source": text, "key": text}
    else:
        extra = {"split": text, "index": pa.int64(), "question": text, "answer": text, "gold": text, "key": text}
        columns = {
            "data_source": text,
            "prompt": prompt,
            "images": images,
            "ability": text,
            "reward_model": pa.struct({"style": text, "ground_truth": text}),
            "extra_info": pa.struct(extra),
        }
    note = {"info": {"features": {name: _feature(kind) for name, kind in columns.items()}}}
    return pa.schema(columns, metadata={"huggingface": json.dumps(note)})


def _feature(kind: pyarrow.DataType) -> dict[str, Any]:
    """A column as `datasets` describes it."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        fields = {kind.field(n).name: kind.field(n).type for n in range(kind.num_fields)}
        return {"_type": "Image"} if "bytes" in fields else {name: _feature(part) for name, part in fields.items()}
    return {"dtype": str(kind), "_type": "Value"}
