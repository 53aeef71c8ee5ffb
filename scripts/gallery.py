"""Make the gallery of the documentation: twelve answers of a model, explained and verified.

    python scripts/gallery.py                                       # the embedded model
    python scripts/gallery.py --model Qwen/Qwen3-VL-8B-Instruct     # any other, on Shapes
    python scripts/gallery.py --model Qwen/Qwen3-VL-8B-Instruct --benchmark mine.jsonl

Explanations are saved as JSON documents. To keep them small, pictures are JPEG and the matrix is rounded to 12 bits.
`make docs` turns them into viewer files, and needs no model for it.
"""

from __future__ import annotations

import argparse
import json
from base64 import b64encode
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw

import vtrace
from vtrace.attribution.findings.evidence_regions import evidence_regions
from vtrace.attribution.result import Attribution
from vtrace.benchmarks.registry import open_benchmark
from vtrace.report.documents import attribution_document
from vtrace.report.wording import percent, quoted_label
from vtrace.system.files import write_atomically
from vtrace.triage.facts import given_regions
from vtrace.viewer.quantise import encode_triangle

PLACE = Path(__file__).parents[1] / "docs" / "gallery"
COUNT = 12
BITS = 12  # of an edge of W
THUMBNAIL = 320  # pixels
OUTLINE = "#b0386f"
EMBEDDED = """
`{model}` is embedded in the package and knows nothing but coloured shapes. Its pictures show how an explanation reads,
not how well VTrace explains a model that you would use.
"""
HEAD = """# Gallery

{count} answers of **{model}** to questions of {benchmark}, explained and verified. Each opens in the
[viewer](../reference/viewer.md): click a word to see what it relies on, a patch to see its paths, and move the slider
under *What if it were hidden?* Outlined are the patches that hold half of the image's share.
{note}
`python scripts/gallery.py --model {model}{source}` made this page with VTrace {version}; any other model takes the same
command, and `make docs` builds the viewer files.

<div class="cards" markdown="1">
"""


def explain(lvlm: vtrace.Lvlm, example: vtrace.Example) -> Attribution:
    trace = vtrace.trace(lvlm, example)
    target = "answer" if trace.answer else "response"
    attribution = replace(vtrace.attribute(lvlm, trace, target), regions=given_regions(trace))
    return attribution.verify(lvlm, setting="image")


def write_document(attribution: Attribution, path: Path) -> None:
    document = attribution_document(attribution)
    document["trace"]["images"] = [b64encode(jpeg(image)).decode("ascii") for image in attribution.trace.images]
    if attribution.pairwise is not None and document["pairwise"]:
        document["pairwise"] = encode_triangle(attribution.pairwise.dense(), BITS)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_atomically(path, lambda file: file.write_text(text, "utf-8"))


def jpeg(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=85, optimize=True)
    return buffer.getvalue()


def draw_thumbnail(attribution: Attribution, path: Path) -> None:
    """The first picture, with the strongest patches outlined."""
    picture = attribution.trace.images[0].convert("RGB")
    scale = THUMBNAIL / max(picture.size)
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(picture)
    strongest = {p for region in evidence_regions(attribution.trace, attribution.scores) for p in region.positions}
    for patch in attribution.trace.patches:
        if patch.position in strongest and patch.image == 0:
            pen.rectangle([round(side * scale) for side in patch.box], outline=OUTLINE, width=3)
    write_atomically(path, lambda file: file.write_bytes(jpeg(picture)))


def card(name: str, attribution: Attribution) -> str:
    trace, first = attribution.trace, attribution.top(1)[0]
    verdict = attribution.verification.verdict if attribution.verification else ""
    shares = f"image {percent(attribution.image_share)} · {quoted_label(first)} {percent(first.score)}"
    return f"""
<div markdown="1">
[![The picture, with the strongest patches outlined]({name}.jpg)]({name}.html)
**[{trace.question}]({name}.html)**

{trace.answer_text or trace.response} · {shares}

{verdict}
</div>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="pinhole")
    parser.add_argument("--benchmark", default="shapes", help="a benchmark, or a file of questions")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--out", type=Path, default=PLACE, help="folder of the page")
    args = parser.parse_args()
    lvlm, benchmark = vtrace.load(args.model), open_benchmark(args.benchmark)
    args.out.mkdir(parents=True, exist_ok=True)
    cards = []
    for number in range(args.count):
        attribution = explain(lvlm, benchmark.example(number))
        name = f"{number + 1:02d}"
        write_document(attribution, args.out / f"{name}.json")
        draw_thumbnail(attribution, args.out / f"{name}.jpg")
        cards.append(card(name, attribution))
        print(f"{name}: {attribution.trace.question} {attribution.trace.answer_text}")
    embedded = args.model.startswith("pinhole")
    head = HEAD.format(
        count=args.count,
        model=args.model,
        benchmark=args.benchmark,
        source="" if args.benchmark == "shapes" else f" --benchmark {args.benchmark}",
        note=EMBEDDED.format(model=args.model) if embedded else "",
        version=vtrace.__version__,
    )
    text = "\n".join([head, *cards, "</div>\n"])
    write_atomically(args.out / "index.md", lambda file: file.write_text(text, "utf-8"))
    print(f"wrote {args.out / 'index.md'}; now: make docs")


if __name__ == "__main__":
    main()
