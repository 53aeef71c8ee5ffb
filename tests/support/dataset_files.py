"""Small files with the columns and types of the real datasets, written by the libraries that write the real ones."""

from __future__ import annotations

import base64
import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
MANY = {f"image_{n}": IMAGE for n in range(1, 8)}
SCHEMAS = {
    "mmstar": {
        "index": pa.int64(), "question": TEXT, "image": IMAGE, "answer": TEXT, "category": TEXT, "l2_category": TEXT,
        "meta_info": pa.struct([("source", TEXT), ("split", TEXT), ("image_path", TEXT)]),
    },
    "mathvista": {
        "pid": TEXT, "question": TEXT, "image": TEXT, "decoded_image": IMAGE, "choices": TEXTS, "unit": TEXT,
        "precision": pa.float64(), "answer": TEXT, "question_type": TEXT, "answer_type": TEXT,
        "metadata": pa.struct([("category", TEXT), ("img_height", pa.int64()), ("skills", TEXTS)]), "query": TEXT,
    },
    "mmmu": {
        "id": TEXT, "question": TEXT, "options": TEXT, "explanation": TEXT, **MANY, "img_type": TEXT, "answer": TEXT,
        "topic_difficulty": TEXT, "question_type": TEXT, "subfield": TEXT,
    },
    "mmmu-pro": {
        "id": TEXT, "question": TEXT, "options": TEXT, "explanation": TEXT, **MANY, "img_type": TEXT, "answer": TEXT,
        "topic_difficulty": TEXT, "subject": TEXT,
    },
    "mmmu-pro-vision": {"id": TEXT, "image": IMAGE, "options": TEXT, "answer": TEXT, "subject": TEXT},
    "mathverse": {
        "sample_index": TEXT, "problem_index": TEXT, "problem_version": TEXT, "question": TEXT, "image": IMAGE,
        "answer": TEXT, "question_type": TEXT,
        "metadata": pa.struct([("split", TEXT), ("source", TEXT), ("subject", TEXT), ("subfield", TEXT)]),
        "query_wo": TEXT, "query_cot": TEXT,
    },
    "visualpuzzles": {
        "id": pa.int64(), "category": TEXT, "image": IMAGE, "question": TEXT, "options": TEXTS, "answer": TEXT,
    },
    "hallusionbench": {
        "category": TEXT, "subcategory": TEXT, "visual_input": TEXT, "set_id": TEXT, "figure_id": TEXT,
        "question_id": TEXT, "question": TEXT, "gt_answer": TEXT, "gt_answer_details": TEXT, "image": IMAGE,
    },
    "realworldqa": {"image": IMAGE, "question": TEXT, "answer": TEXT, "image_path": TEXT},
    "mathvision": {
        "id": TEXT, "question": TEXT, "options": TEXTS, "image": TEXT, "decoded_image": IMAGE, "answer": TEXT,
        "solution": TEXT, "level": pa.int64(), "subject": TEXT,
    },
    "mmr1-rl": {"images": pa.list_(IMAGE), "problem": TEXT, "answer": TEXT},
    "revisual-r1": {
        "images": pa.list_(IMAGE), "problem": TEXT, "answer": TEXT, "dataset": TEXT, "pass_rate": pa.float64(),
        "difficulty_score": pa.float64(), "extracted_answers": TEXTS,
    },
}  # fmt: skip


def png(colour="red", size=(48, 48), form="PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, form)
    return buffer.getvalue()


def image(colour="red", form="PNG") -> dict:
    return {"bytes": png(colour, form=form), "path": f"{colour}.{form.lower()}"}


def write_parquet(path: Path, name: str, rows: list[dict], group: int = 2) -> Path:
    """Rows in the schema of a benchmark; cells that are not given are null."""
    schema = pa.schema(list(SCHEMAS[name].items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=group)
    return path


def write_tsv(path: Path, rows: list[dict]) -> Path:
    """As VLMEvalKit's files are: tabs, quotes where they are needed, pictures in base64."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def base64_png(colour="red") -> str:
    return base64.b64encode(png(colour)).decode("ascii")


def mmstar_rows(count=3) -> list[dict]:
    colours = ["red", "green", "blue"]
    return [
        {
            "index": n,
            "image": image(colours[n % 3]),
            "answer": "ABC"[n % 3],
            "category": "coarse perception",
            "question": "Which colour is shown?\nOptions: A: red, as of a rose, B: green, C: blue, D: none of these",
            "l2_category": "image scene",
            "meta_info": {"source": "here", "split": "val", "image_path": f"{n}.png"},
        }
        for n in range(count)
    ]
