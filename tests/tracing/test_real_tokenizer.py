"""The real Qwen3 tokenizer and real templates before random models: texts as they occur, found to the character."""

from __future__ import annotations

import unicodedata

import pytest
import torch
import transformers
from transformers import AutoTokenizer

import vtrace
from support import families, real_parts
from support.pictures import noise
from vtrace.lvlm.families.qwen_vl import QWEN3_VL
from vtrace.lvlm.processor import image_only
from vtrace.tracing.targets import find_target

PICTURE = noise((96, 64))
LONG = "\n".join(
    f"Step {k}: the value is ${k}^2 = {k * k}$, 第{k}步，值为 {k * k}。 Значение — {k * k}… 🧮" for k in range(1, 40)
)
RESPONSES = {
    "plain": ("The badge says POLICE.\nFinal answer: police officer", "police officer"),
    "latex": (
        "By Pythagoras, $c=\\sqrt{a^2+b^2}$, so\n\\[ c = \\frac{10}{2} \\]\n**Final answer:** $\\boxed{5}$",
        "\\boxed{5}",
    ),
    "chinese": ("图中有一只猫，坐在红色的沙发上。它看着窗外！\nFinal answer: 一只猫", "一只猫"),
    "arabic": ("في الصورة قطة سوداء تجلس على الكرسي.\nFinal answer: قطة", "قطة"),
    "hindi": ("चित्र में एक लाल तारा है।\nFinal answer: लाल तारा", "लाल तारा"),
    "thai": ("ในภาพมีดาวสีแดงหนึ่งดวง\nFinal answer: ดาวสีแดง", "ดาวสีแดง"),
    "emoji": ("I see 👩‍👩‍👧‍👦 and 🏳️‍🌈, then 🇩🇪!\nFinal answer: 👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"),
    "rare": ("It reads 𠮷野家 and ﷽, 𝒜 and e\u0301.\nFinal answer: 𠮷野家", "𠮷野家"),
    "markdown": ("| a | b |\n|---|---|\n| 1 | 2 |\n\n### Final answer: **2**", "2"),
    "twice": ("Final answer: 3? No.\nLet me look again.\nFinal answer: 4", "4"),
    "long": (f"{LONG}\nFinal answer: 1521", "1521"),
}


@pytest.fixture(scope="module")
def lvlm():
    tokenizer = AutoTokenizer.from_pretrained(real_parts.qwen3_tokenizer())
    _, config, small = families.qwen3_vl()
    text = config.text_config
    text.vocab_size, text.pad_token_id, text.eos_token_id = (
        len(tokenizer),
        tokenizer.pad_token_id,
        tokenizer.eos_token_id,
    )
    text.hidden_size, text.max_position_embeddings = 48, 8192
    for name, token in (
        ("image_token_id", "<|image_pad|>"),
        ("video_token_id", "<|video_pad|>"),
        ("vision_start_token_id", "<|vision_start|>"),
        ("vision_end_token_id", "<|vision_end|>"),
    ):
        setattr(config, name, tokenizer.convert_tokens_to_ids(token))
    torch.manual_seed(0)
    model = transformers.Qwen3VLForConditionalGeneration._from_config(config, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    template = real_parts.chat_template("qwen3_vl")
    processor = image_only(transformers.Qwen3VLProcessor)(small.image_processor, tokenizer, chat_template=template)
    return vtrace.Lvlm("random Qwen3-VL", model, processor, QWEN3_VL)


@pytest.mark.parametrize("name", RESPONSES)
def test_spans_words_and_the_answer(lvlm, name):
    response, answer = RESPONSES[name]
    found = vtrace.trace(lvlm, PICTURE, "这是什么？ What is it, and why 🤔?", response=response)
    assert found.response == unicodedata.normalize("NFC", response)
    assert found.answer_text == answer
    assert found.question == "这是什么？ What is it, and why 🤔?"
    check_positions(found)
    target = find_target(found, "answer")
    shown = found.text[found.offsets[target.positions[0]][0] : found.offsets[target.positions[-1]][1]]
    assert answer in shown
    assert len(shown) <= len(answer) + 3  # a token can hold a bracket or a blank more


def check_positions(found):
    """Every position has its characters, every character its position, every word its tokens."""
    tokens = range(len(found))
    assert [found.offsets[p][0] for p in tokens] == sorted(found.offsets[p][0] for p in tokens)
    covered = [p for word in found.words for p in range(word.start, word.stop)]
    assert covered == found.positions("question", "template", "response")
    asked = found.positions("question")
    text = found.text[found.offsets[asked[0]][0] : found.offsets[asked[-1]][1]]
    assert text.strip() == found.question
    assert all(word.text == word.text.strip() for word in found.words)
    for kind in ("question", "response"):
        said = "".join(w.text for w in found.words if w.kind == kind and not w.text.startswith("<|"))
        whole = found.question if kind == "question" else found.response
        assert "".join(said.split()) == "".join(whole.split())


def test_words_are_what_people_read(lvlm):
    found = vtrace.trace(lvlm, PICTURE, "Is it 3.5 km, isn't it?", response="Unbelievably, it's ¾ of 1,024 猫猫.")
    assert [w.text for w in found.words if w.kind == "question"] == ["Is", "it", "3.5", "km", ",", "isn't", "it", "?"]
    said = [w.text for w in found.words if w.kind == "response"]
    assert said[:4] == ["Unbelievably", ",", "it's", "¾"]


def test_an_attribution_of_a_long_answer(lvlm):
    found = vtrace.trace(lvlm, PICTURE, "What is 39 squared?", response=RESPONSES["long"][0])
    assert len(found) > 1000
    explained = vtrace.attribute(lvlm, found, "answer")
    assert explained.image_share + explained.text_share == pytest.approx(1)
    assert len(found.sentences) >= 39


def test_the_real_template_with_several_turns_and_pictures(lvlm):
    chat = [
        {"role": "user", "content": [{"type": "text", "text": "图一"}, {"type": "image", "image": PICTURE}]},
        {"role": "assistant", "content": "A cat. 🐈"},
        {"role": "user", "content": [{"type": "image", "image": PICTURE}, {"type": "text", "text": "与图二相比？"}]},
    ]
    found = vtrace.trace(lvlm, chat, response="Same.\nFinal answer: same")
    words = "".join(w.text for w in found.words if w.kind == "question")
    assert words == "图一Acat.🐈与图二相比？"
    assert {p.image for p in found.patches} == {0, 1}


@pytest.mark.parametrize(
    ("name", "builder"),
    [("qwen2_5_vl", "qwen2_5_vl"), ("idefics3", "idefics3"), ("llava_next", "llava_next"), ("gemma3", "gemma3")],
)
def test_real_templates_of_other_families(tmp_path, name, builder):
    lvlm = vtrace.load(families.write(builder, tmp_path))
    lvlm.processor.chat_template = real_parts.chat_template(name)
    if name in ("gemma3", "idefics3"):
        lvlm.processor.tokenizer.bos_token = "<|endoftext|>"
    found = vtrace.trace(lvlm, PICTURE, "Where is the red star?", response="Final answer: here")
    assert "".join(w.text for w in found.words if w.kind == "question") == "Whereistheredstar?"
    assert "Look at the image carefully" in found.text
    assert found.answer_text == "here"
