"""Example → Trace: every position has a meaning, and a trace survives its file."""

from __future__ import annotations

import dataclasses
import json

import pytest
from PIL import Image

import vtrace
from support.pictures import noise
from vtrace.errors import InputError
from vtrace.tracing.defaults import MAX_NEW_TOKENS, SYSTEM_PROMPT
from vtrace.tracing.example import as_example
from vtrace.tracing.pictures import open_image
from vtrace.types import Example


def test_the_papers_prompt_and_budget(trace):
    assert MAX_NEW_TOKENS == 2048
    assert trace.text.startswith(f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n<|vision_start|>")
    assert f"<|vision_end|>{trace.question}<|im_end|>\n<|im_start|>assistant\n{trace.response}" in trace.text


def test_kinds_cover_the_sequence(pinhole, trace):
    assert len(trace.kinds) == len(trace.ids) == len(trace.offsets)
    assert set(trace.kinds) == {"image", "question", "template", "response"}
    assert all(trace.ids[p] == pinhole.image_token_id for p in trace.positions("image"))
    question = trace.positions("question")
    assert trace.text[trace.offsets[question[0]][0] : trace.offsets[question[-1]][1]] == trace.question
    assert trace.positions("response") == list(range(trace.prompt_length, len(trace)))


def test_words_cover_everything_but_the_image(trace):
    covered = [p for word in trace.words for p in range(word.start, word.stop)]
    assert covered == trace.positions("question", "template", "response")


def test_greedy_decoding_stops_by_itself(pinhole, trace):
    assert trace.finish == "stop"
    assert trace.ids[-1] == pinhole.processor.tokenizer.eos_token_id
    assert "<|im_end|>" not in trace.response
    assert trace.answer_text
    assert trace.text[slice(*trace.reasoning)].endswith(".")


@pytest.mark.parametrize("size", [(256, 256), (320, 192), (192, 256), (500, 333), (90, 300)])
def test_patches_tile_the_original_picture(pinhole, size):
    found = vtrace.trace(
        pinhole, Image.new("RGB", size, "grey"), "Where is the red star?", response="Final answer: here"
    )
    rows, columns = found.patches[-1].row + 1, found.patches[-1].column + 1
    assert [p.position for p in found.patches] == found.positions("image")
    assert len(found.patches) == rows * columns
    assert sum((p.box[2] - p.box[0]) * (p.box[3] - p.box[1]) for p in found.patches) == pytest.approx(size[0] * size[1])
    assert found.patches[0].box[:2] == (0, 0)
    assert found.patches[-1].box[2:] == pytest.approx(size)


def test_a_painted_cell_changes_the_feature_of_its_own_patch_most(pinhole):
    from vtrace.tracing.prompt import encode_trace

    grey = Image.new("RGB", (320, 192), (150, 150, 150))
    before = vtrace.trace(pinhole, grey, "What is there?", response="Final answer: x")
    for patch in before.patches[:: len(before.patches) // 7]:
        painted = grey.copy()
        painted.paste((200, 30, 30), tuple(round(v) for v in patch.box))
        after = vtrace.trace(pinhole, painted, "What is there?", response="Final answer: x")
        change = encode_trace(pinhole, after)["inputs_embeds"] - encode_trace(pinhole, before)["inputs_embeds"]
        assert int(change[0].norm(dim=-1).argmax()) == patch.position


def test_several_pictures(pinhole):
    images = [vtrace.example("dev-1").images[0], vtrace.example("dev-2").images[0]]
    found = vtrace.trace(pinhole, images, "Where is the red star?", response="It is there.\nFinal answer: there")
    assert {p.image for p in found.patches} == {0, 1}
    assert [p.position for p in found.patches] == found.positions("image")
    explained = vtrace.attribute(pinhole, found)
    assert explained.image_share + explained.text_share == pytest.approx(1)
    assert any(item.label.startswith("picture 2 patch") for item in explained.ranking())


def test_a_supplied_response_is_traced(pinhole):
    text = "I think it is a blue cross — naïvely 🙂.\nFinal answer: blue cross"
    found = vtrace.trace(pinhole, vtrace.example("dev-1"), response=text)
    assert found.finish == "supplied"
    assert found.response == text
    assert found.answer_text == "blue cross"


def test_sampled_tokens_are_traced_as_they_are(pinhole, trace):
    sampled = trace.ids[trace.prompt_length :]
    asked = dataclasses.replace(vtrace.example(), response_ids=sampled)
    assert vtrace.trace(pinhole, asked) == dataclasses.replace(trace, finish="stop")
    cut = vtrace.trace(pinhole, dataclasses.replace(asked, response_ids=sampled[:-1]))
    assert (cut.finish, cut.ids) == ("length", trace.ids[:-1])


@pytest.mark.parametrize(
    ("token", "message"), [(10**6, "has a token 1000000, but pinhole has only"), (None, "token of a picture or video")]
)
def test_tokens_that_the_model_cannot_read_are_refused(pinhole, token, message):
    ids = (5, pinhole.image_token_id if token is None else token)
    with pytest.raises(InputError, match=message):
        vtrace.trace(pinhole, dataclasses.replace(vtrace.example(), response_ids=ids))


def test_a_response_cut_off_at_the_budget_says_so(pinhole):
    found = vtrace.trace(pinhole, vtrace.example(), max_new_tokens=5)
    assert found.finish == "length"
    assert len(found) == found.prompt_length + 5
    assert "cut off" in vtrace.attribute(pinhole, found).warnings[0]


def test_a_response_of_one_sentence_ends_with_its_first(pinhole, trace):
    example = Example(trace.images, trace.question, one_sentence=True)
    first = vtrace.trace(pinhole, example)
    assert len(trace.sentences) > 1
    assert first.ids == trace.ids[: len(first)]
    assert first.response == trace.text[slice(*trace.sentences[0])]
    assert first.finish == "stop"
    assert vtrace.trace(pinhole, example, max_new_tokens=3).finish == "length"
    assert vtrace.trace(pinhole, example, max_new_tokens=len(first.positions("response"))).finish == "stop"
    assert vtrace.trace(pinhole, example, response="It is red. It is a star.").response == "It is red. It is a star."


def test_a_trace_survives_its_file(trace, tmp_path):
    path = vtrace.save(trace, tmp_path / "trace.json")
    loaded = vtrace.read(path)
    assert isinstance(loaded, vtrace.Trace)
    for name in trace.__dataclass_fields__:
        if name not in ("images", "processed"):
            assert getattr(loaded, name) == getattr(trace, name), name
    assert loaded.images[0].tobytes() == trace.images[0].tobytes()
    assert json.loads(path.read_text())["schema"] == "vtrace.trace/1"


def test_a_trace_of_another_model_is_refused(pinhole, trace):
    strange = dataclasses.replace(trace, ids=(5, *trace.ids[1:]), model="somebody/else")
    with pytest.raises(vtrace.VTraceError, match="made with somebody/else"):
        vtrace.attribute(pinhole, strange)


class TestArguments:
    PICTURE = Image.new("RGB", (64, 64))

    @pytest.mark.parametrize("given", ["What is it?", ["What is it?"]])
    def test_before_the_picture(self, given):
        with pytest.raises(InputError, match=r"the question comes after the pictures; write: trace\("):
            as_example(given, self.PICTURE)

    def test_before_the_name_of_a_picture(self, tmp_path):
        self.PICTURE.save(tmp_path / "a.png")
        with pytest.raises(InputError, match="the question comes after the pictures"):
            as_example("What is it?", str(tmp_path / "a.png"))

    @pytest.mark.parametrize("given", [None, 5, ["What is it?"], PICTURE])
    def test_no_text(self, given):
        with pytest.raises(InputError, match=r"a question cannot be of type .*; give its text"):
            as_example(self.PICTURE, given)


class TestPictures:
    def test_missing(self, tmp_path):
        with pytest.raises(InputError, match="there is no picture at"):
            open_image(tmp_path / "nothing.png")

    def test_folder(self, tmp_path):
        with pytest.raises(InputError, match="is a folder"):
            open_image(tmp_path)

    def test_empty(self, tmp_path):
        (tmp_path / "empty.png").touch()
        with pytest.raises(InputError, match="is empty"):
            open_image(tmp_path / "empty.png")

    def test_not_a_picture(self, tmp_path):
        (tmp_path / "text.png").write_text("hello")
        with pytest.raises(InputError, match="not a picture"):
            open_image(tmp_path / "text.png")

    def test_truncated(self, tmp_path):
        noise((200, 200)).save(tmp_path / "whole.png")
        (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:9000])
        with pytest.raises(InputError, match="cannot read"):
            open_image(tmp_path / "half.png")

    def test_enormous(self, tmp_path):
        Image.new("1", (30_000, 30_000)).save(tmp_path / "bomb.png")
        with pytest.raises(InputError, match=r"megapixels|exceeds limit"):
            open_image(tmp_path / "bomb.png")

    def test_a_question_in_place_of_a_picture(self):
        with pytest.raises(InputError, match="there is no picture"):
            open_image("what is this? " * 40)

    def test_sixteen_bits_keep_their_shades(self):
        import numpy as np

        ramp = Image.fromarray(np.tile(np.linspace(0, 65535, 64).astype("uint16"), (32, 1)))
        shades = np.asarray(open_image(ramp))[0, :, 0].astype(int)
        assert shades[0] == 0
        assert shades[-1] == 255
        assert (np.diff(shades) >= 0).all()

    def test_none(self, pinhole):
        with pytest.raises(InputError, match="at least one"):
            vtrace.trace(pinhole, [], "What is it?")

    def test_too_thin(self):
        with pytest.raises(InputError, match="too thin"):
            open_image(Image.new("RGB", (4000, 4)))

    @pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "I;16", "1", "LA"])
    def test_every_mode_becomes_rgb(self, mode):
        assert open_image(Image.new(mode, (40, 30))).mode == "RGB"

    def test_transparent_pixels_become_white(self):
        assert open_image(Image.new("RGBA", (4, 4), (0, 0, 0, 0))).getpixel((0, 0)) == (255, 255, 255)

    def test_rotated_by_exif(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.new("RGB", (40, 20)).save(tmp_path / "turned.jpg", exif=exif)
        assert open_image(tmp_path / "turned.jpg").size == (20, 40)


class TestQuestions:
    @pytest.mark.parametrize(
        "question", ["a", "user", "assistant", "e", "image", "Final answer: <answer>", "<answer>'."]
    )
    def test_a_question_that_is_also_a_word_of_the_template(self, pinhole, question):
        found = vtrace.trace(pinhole, Image.new("RGB", (64, 64)), question, response="Final answer: x")
        first, last = found.positions("question")[0], found.positions("question")[-1]
        assert found.text[found.offsets[first][0] : found.offsets[last][1]] == question
        assert first > found.positions("image")[-1]

    @pytest.mark.parametrize("question", ["", "  \n "])
    def test_empty(self, pinhole, question):
        with pytest.raises(InputError, match="question is empty"):
            vtrace.trace(pinhole, Image.new("RGB", (64, 64)), question)

    @pytest.mark.parametrize("mark", ["<|image_pad|>", "<|video_pad|>"])
    def test_picture_placeholder(self, pinhole, mark):
        picture = Image.new("RGB", (64, 64))
        with pytest.raises(InputError, match="the prompt contains"):
            vtrace.trace(pinhole, picture, f"What is {mark}?")
        with pytest.raises(InputError, match="the response contains"):
            vtrace.trace(pinhole, picture, "What is it?", response=f"It is {mark}.")

    def test_decomposed_characters_are_composed(self, pinhole):
        found = vtrace.trace(
            pinhole, vtrace.Example((Image.new("RGB", (64, 64)),), " caf\u0065\u0301? "), response="no"
        )
        assert found.question == "caf\u00e9?"

    def test_longer_than_the_context(self, pinhole):
        with pytest.raises(InputError, match="more than the model's context"):
            vtrace.trace(pinhole, Image.new("RGB", (64, 64)), "why? " * 5000)

    def test_response_longer_than_the_context(self, pinhole):
        with pytest.raises(InputError, match="more than the model's context"):
            vtrace.trace(pinhole, Image.new("RGB", (64, 64)), "why?", response="because " * 5000)

    def test_empty_response(self, pinhole):
        with pytest.raises(InputError, match="response is empty"):
            vtrace.trace(pinhole, Image.new("RGB", (64, 64)), "why?", response="  ")
