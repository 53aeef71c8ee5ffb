"""Several pictures and several turns: everything is found in the prompt, and has its share."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import vtrace
from vtrace.errors import InputError
from vtrace.report.attribution.figure import attribution_figure
from vtrace.report.wording import percent
from vtrace.tracing.conversation import locate, marked, messages_of, parse, single, texts_of, unmarked
from vtrace.types import Turn


def text(words):
    return {"type": "text", "text": words}


@pytest.fixture(scope="module")
def chat():
    one, two = (vtrace.example(key).images[0] for key in ("dev-1", "dev-2"))
    return [
        {"role": "user", "content": [{"type": "image", "image": one}, text("Where is the red star?")]},
        {"role": "assistant", "content": "The red star is at row 1 column 2."},
        {"role": "user", "content": [text("And here"), {"type": "image", "image": two}, text("where is it?")]},
    ]


ANSWER = "It is below.\nFinal answer: row 2 column 2"


@pytest.fixture(scope="module")
def talk(pinhole, chat):
    return vtrace.trace(pinhole, chat, response=ANSWER)


def test_every_part_of_a_conversation_is_found(talk):
    asked = [talk.text[slice(talk.offsets[a][0], talk.offsets[b - 1][1])] for a, b in runs(talk, "question")]
    assert asked == ["Where is the red star?", "The red star is at row 1 column 2.", "And here", "where is it?"]
    assert talk.question == "And here where is it?"
    first, second = ([p.position for p in talk.patches if p.image == k] for k in (0, 1))
    assert max(first) < talk.positions("question")[0] < min(second) < talk.positions("question")[-1]
    assert talk.response == ANSWER
    assert talk.answer_text == "row 2 column 2"


def runs(trace, kind):
    """Runs of positions of one kind."""
    found = []
    for position in trace.positions(kind):
        if found and found[-1][1] == position:
            found[-1][1] = position + 1
        else:
            found.append([position, position + 1])
    return found


def test_the_prompt_is_what_the_template_says(pinhole, talk, chat):
    def bare_content(content):
        if isinstance(content, str):
            return content
        return [{"type": "image"} if part["type"] == "image" else part for part in content]

    bare = [{**message, "content": bare_content(message["content"])} for message in chat]
    system = {"role": "system", "content": [text(talk.system)]}
    whole = pinhole.processor.apply_chat_template([system, *bare], add_generation_prompt=True)
    pieces = whole.split("<|image_pad|>")
    pictures = re.split(r"(?:<\|image_pad\|>)+", talk.text[: talk.response_span.start])
    assert len(pieces) == 3
    assert [piece.split() for piece in pictures] == [piece.split() for piece in pieces]


def test_shares_of_pictures_sum_to_the_image_share(pinhole, talk):
    found = vtrace.attribute(pinhole, talk)
    assert len(found.picture_shares) == 2
    assert sum(found.picture_shares) == pytest.approx(found.image_share)
    assert found.image_share + found.text_share == pytest.approx(1)
    titles = [axes.get_title(loc="left") for axes in attribution_figure(found).axes]
    assert f"picture 2: {percent(found.picture_shares[1])}" in titles


def test_the_same_question_asked_plainly_and_as_a_chat_is_the_same(pinhole):
    example = vtrace.example("dev-3")
    plain = vtrace.trace(pinhole, example, response=ANSWER)
    parts = [{"type": "image", "image": example.images[0]}, text(example.question)]
    said = [{"role": "user", "content": parts}, {"role": "assistant", "content": ANSWER}]
    chatted = vtrace.trace(pinhole, said)
    assert (chatted.ids, chatted.kinds, chatted.words) == (plain.ids, plain.kinds, plain.words)
    told = vtrace.trace(pinhole, [{"role": "system", "content": "Be brief."}, *said])
    assert told.system == "Be brief."


def test_a_conversation_survives_its_file_and_is_explained_from_it(pinhole, talk, tmp_path):
    loaded = vtrace.read(vtrace.save(talk, tmp_path / "talk.json"))
    assert loaded.turns == talk.turns
    np.testing.assert_allclose(vtrace.attribute(pinhole, loaded).scores, vtrace.attribute(pinhole, talk).scores)


def test_what_an_earlier_turn_said_is_a_ranked_input(pinhole, talk):
    ranking = vtrace.attribute(pinhole, talk).ranking()
    assert {"column"} <= {item.label for item in ranking if item.kind == "question" and item.score > 0}
    assert {item.image for item in ranking if item.kind == "image" and item.score > 0} == {0, 1}


def test_a_chat_file_on_the_command_line(run, chat, tmp_path):
    for number in (0, 2):
        for part in chat[number]["content"]:
            if part["type"] == "image":
                part["image"].save(tmp_path / f"{number}.png")
    written = json.loads(
        json.dumps(chat, default=lambda image: "0.png" if image is chat[0]["content"][0]["image"] else "2.png")
    )
    path = tmp_path / "talk.json"
    path.write_text(json.dumps({"messages": [*written, {"role": "assistant", "content": ANSWER}]}))
    code, out, err = run("explain", "--chat", path, "--target", "answer", "--html", tmp_path / "a.html")
    assert code == 0, err
    assert "Assistant" in out
    assert "picture 1" in out
    _, out, _ = run("explain", "--chat", path, "--json", "-")
    assert len(json.loads(out)["picture_shares"]) == 2


def test_two_pictures_have_a_map_and_a_share_each_in_every_report(run, tmp_path):
    names = [tmp_path / f"{key}.png" for key in ("dev-1", "dev-2")]
    for name in names:
        vtrace.example(name.stem).images[0].save(name)
    asked = ("explain", *names, "Where is the red star?", "--response", ANSWER)
    code, out, err = run(*asked, "--json", tmp_path / "a.json")
    assert code == 0, err
    found = vtrace.read(tmp_path / "a.json")
    one, two = map(percent, found.picture_shares)
    assert f"picture 1 {one} · picture 2 {two}" in out
    titles = [axes.get_title(loc="left") for axes in attribution_figure(found).axes]
    assert [title for title in titles if title] == [f"picture 1: {one}", f"picture 2: {two}"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nothing", "not a conversation in JSON"),
        ("[]", "has no list of messages"),
        ('{"a": 1}', "has no list of messages"),
        ('[{"role": "user"}]', "message 1 is not of the form"),
        ('[{"role": "tool", "content": "x"}]', "message 1 has role 'tool'"),
        ('[{"role": "user", "content": [{"type": "video"}]}]', "message 1 has a part that is neither"),
        ('[{"role": "assistant", "content": "x"}]', "no question"),
        ('[{"role": "user", "content": [{"type": "image", "path": "x"}, {"type": "text", "text": "?"}]}]', "no pic"),
        ('[{"role": "user", "content": "What is it?"}]', "no picture was given"),
    ],
)
def test_bad_chat_files(run, tmp_path, content, words):
    path = tmp_path / "chat.json"
    path.write_text(content)
    code, _, err = run("explain", "--chat", path)
    assert (code, err.count("\n")) == (2, 1)
    assert words in err


def test_a_chat_file_that_is_not_there(run, tmp_path):
    code, _, err = run("explain", "--chat", tmp_path / "none.json")
    assert (code, err.count("\n")) == (2, 1)
    assert "there is no file" in err


# Pure functions


def test_texts_are_located_by_the_template_and_not_by_their_words():
    turns = (Turn("user", (None, "user")), Turn("assistant", ("a",)), Turn("user", ("assistant", None, "a b\n c")))
    shell = "<s>user: {} assistant: {} user: {} assistant:"
    rendered = shell.format(f"<img>{mark('user')}", mark("a"), mark("assistant") + "<img>" + mark("a b\n c"))
    prompt = shell.format("<img><img>user", "a", "assistant<img>\n<img>a b\n c")
    assert texts_of(turns) == ["user", "a", "assistant", "a b\n c"]
    spans = locate(prompt, rendered, 4, "<img>")
    assert [prompt[slice(*span)] for span in spans] == texts_of(turns)
    assert spans[0][0] > prompt.index("user")
    assert locate("something else", rendered, 4, "<img>") is None
    assert locate(prompt, rendered, 3, "<img>") is None


def test_a_beginning_that_the_tokenizer_wrote_and_trimmed_blanks_do_no_harm():
    spans = locate("<bos><s>user: hello\nthere end", "<s>user:  " + mark("hello\n there") + " end", 1, "")
    assert spans == [(14, 25)]


def mark(visible):
    return f"\ufdd0{visible}\ufdd1"


def test_marks_stand_inside_the_blanks_that_a_template_may_strip():
    turns = (Turn("user", (None, " x\n", " ", "y z")),)
    assert marked(turns)[0].parts == (None, f" {mark('x')}\n", " ", mark("y z"))
    assert unmarked("".join(part or "" for part in marked(turns)[0].parts)) == " x\n y z"


def test_messages_for_a_template():
    found = messages_of(single(1, "why?"), "Be brief.")
    assert [m["role"] for m in found] == ["system", "user"]
    assert found[1]["content"] == [{"type": "image"}, text("why?")]
    folded = messages_of(single(0, "why?"), "Be brief.", own_turn=False, plain=True)
    assert folded == [{"role": "user", "content": "Be brief.\n\nwhy?"}]


def test_a_chat_without_a_question_is_refused():
    with pytest.raises(InputError, match="no question"):
        parse([{"role": "user", "content": [{"type": "image", "image": "a.png"}]}])
