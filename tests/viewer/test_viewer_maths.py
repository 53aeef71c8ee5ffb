"""The page's own maths, run in a real Chromium, gives what Python gives."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from oracles import paths
from support.opened import new_context
from vtrace.attribution.calibrate import Likelihoods, calibrate
from vtrace.attribution.findings.region_files import read_regions
from vtrace.attribution.findings.regions import box_region, region_notes
from vtrace.attribution.multihop import edge_scale, log_scores
from vtrace.attribution.options import Options
from vtrace.attribution.pipeline import score
from vtrace.attribution.triangle import Triangle
from vtrace.errors import InputError
from vtrace.methods.comparison import rank
from vtrace.report.wording import calibration_details, calibration_sentence, percent
from vtrace.tracing.targets import find_target
from vtrace.types import Target
from vtrace.viewer.export import export
from vtrace.viewer.page import concatenate
from vtrace.viewer.quantise import DEPTHS, SPAN, choose_depth, decode_triangle, encode_triangle

pytestmark = pytest.mark.browser
MATHS = (
    "quantised",
    "multihop",
    "routes",
    "calibrate",
    "attribution",
    "targets",
    "regions",
    "scale",
    "state",
    "dom",
    "dependence",
    "likelihood_marks",
)
LINK = """
const reply = (value) => JSON.stringify(value, (key, item) =>
  item === -Infinity ? "-inf" : item === Infinity ? "inf" : ArrayBuffer.isView(item) ? [...item] : item);
window.call = async (body, given) => reply(await new AsyncFunction("given", ...Object.keys(maths),
  body)(given, ...Object.values(maths)));
const AsyncFunction = (async () => {}).constructor;
"""


@pytest.fixture(scope="module")
def javascript(browser):
    """Evaluate a function body in which the maths modules' names, and `given`, are known."""
    context = new_context(browser)
    page = context.new_page()
    names = (
        "bytesOf, decodeMatrix, flowsOf, logScores, strongestRoutes, passages, calibrate, calibrationSentence, "
        "calibrationDetails, attribute, support, rankCorrelation, findTarget, tokenWords, colourOf, inkOn, percent, "
        "scaleOf, rankingOf, prepare, stateOf, linkOf, beginning, positionsOf, boxRegion, findRegion, regionWords, "
        "regionShare, regionNotes, wordDependence, newWords"
    )
    page.add_script_tag(content=f"(() => {{{concatenate(MATHS)}\nconst maths = {{{names}}};{LINK}}})()")

    def run(body: str, **given):
        text = page.evaluate("([body, given]) => call(body, given)", [body, given])
        return json.loads(text, parse_constant=float)

    yield run
    context.close()


def numbers(values) -> np.ndarray:
    return np.array([float(v) if v is not None else math.nan for v in values])


def random_pairwise(length, density=0.5, seed=0):
    torch.manual_seed(seed)
    return (torch.rand(length, length) ** 3 * (torch.rand(length, length) < density)).triu(1)


LOG_SCORES = """
const matrix = await decodeMatrix(given.matrix);
return logScores(flowsOf(matrix, given.gamma, given.hops), given.receivers);
"""


@pytest.mark.parametrize(
    ("hops", "python"),
    [
        ("all", {}),
        ("direct", {"multihop": False}),
        (1, {"hops": 1}),
        (2, {"hops": 2}),
        (7, {"hops": 7}),
    ],
)
@pytest.mark.parametrize("gamma", [0.3, 1.0, 1.7])
def test_scores_equal_multihop(javascript, gamma, hops, python):
    pairwise = random_pairwise(150, density=0.1)
    receivers = torch.zeros(150, 1)
    receivers[[100, 140, 149]] = 1
    expected = log_scores(Triangle.of(pairwise), receivers, gamma, **python)[:, 0].numpy()
    found = javascript(LOG_SCORES, matrix=encode_triangle(pairwise), gamma=gamma, hops=hops, receivers=[100, 140, 149])
    np.testing.assert_allclose(numbers(found), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["growing", "vanishing", "zero", "gamma zero"])
def test_no_range_is_too_wide(javascript, kind):
    length = 600
    pairwise = torch.zeros(length, length)
    gamma = 1.0
    if kind == "growing":  # sums of about 2^600 · 30^600
        pairwise, gamma = random_pairwise(length, 0.9), 30.0
    if kind == "vanishing":  # a chain of edges of 1e-5
        pairwise[range(length - 1), range(1, length)] = 1e-5
        pairwise[0, 1] = 1.0
    if kind == "gamma zero":
        pairwise, gamma = random_pairwise(length), 0.0
    receivers = torch.zeros(length, 1)
    receivers[length - 1] = 1
    expected = log_scores(Triangle.of(pairwise), receivers, gamma)[:, 0].numpy()
    found = numbers(
        javascript(LOG_SCORES, matrix=encode_triangle(pairwise), gamma=gamma, hops="all", receivers=[length - 1])
    )
    assert not np.isnan(found).any()
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
    if kind == "growing":
        assert expected.max() > 750  # beyond the range of plain numbers
    if kind == "vanishing":
        assert expected[1:-1].min() < -6000


@pytest.mark.parametrize("bits", DEPTHS)
def test_a_matrix_survives_its_compact_form(javascript, bits):
    pairwise = random_pairwise(80)
    upper = pairwise[torch.triu(torch.ones(80, 80), 1) > 0].numpy()
    encoded = encode_triangle(pairwise, bits)
    found = numbers(javascript("return (await decodeMatrix(given)).values", **encoded))
    np.testing.assert_allclose(decode_triangle(encoded, 80)[torch.triu(torch.ones(80, 80), 1) > 0], found, rtol=1e-6)
    assert not decode_triangle(encoded, 80).tril().any()
    if bits == 32:
        np.testing.assert_array_equal(found, upper)
        return
    kept = upper > upper.max() * math.exp(-SPAN)
    np.testing.assert_allclose(found[kept], upper[kept], rtol=SPAN / (2**bits - 2) / 2 + 1e-6)
    assert (found[upper == 0] == 0).all()
    assert found.max() == upper.max()


@pytest.mark.parametrize("pairwise", [torch.zeros(3, 3), torch.ones(3, 3).triu(1), torch.zeros(1, 1)])
def test_a_flat_matrix_survives_too(javascript, pairwise):
    found = javascript("return (await decodeMatrix(given)).values", **encode_triangle(pairwise, 12))
    assert found == [float(pairwise.max())] * (len(pairwise) * (len(pairwise) - 1) // 2)


def test_depth_follows_the_budget():
    assert [choose_depth(n * (n - 1) // 2) for n in (200, 900, 1200, 1500, 3000)] == [32, 32, 16, 12, 12]


@pytest.mark.parametrize("seed", range(4))
def test_routes_and_passages_equal_every_path_counted_one_by_one(javascript, seed):
    pairwise = random_pairwise(9, density=0.7, seed=seed)
    sources, receivers, words = [0, 1], [6, 8], [range(2, 4), range(4, 5), range(5, 8)]
    hat = pairwise.double().numpy() * edge_scale(Triangle.of(pairwise), 0.8)
    credit = paths.credits(hat, sources, receivers)
    found = javascript(
        """
        const flows = flowsOf(await decodeMatrix(given.matrix), 0.8, "all");
        return {
          routes: strongestRoutes(flows, given.sources, given.receivers, 5),
          via: passages(flows, given.sources, given.receivers, given.words),
        };
        """,
        matrix=encode_triangle(pairwise),
        sources=sources,
        receivers=receivers,
        words=[[w.start, w.stop] for w in words],
    )
    best = sorted(credit.items(), key=lambda item: -item[1])[:5]
    assert [tuple(route["positions"]) for route in found["routes"]] == [path for path, _ in best]
    total = sum(credit.values())
    np.testing.assert_allclose([r["share"] for r in found["routes"]], [value / total for _, value in best], rtol=1e-9)
    np.testing.assert_allclose(found["via"], [paths.passage(credit, word) for word in words], rtol=1e-9, atol=1e-12)


CASES = [
    (-10, -30, -20, -50),
    (-10, -5, -20, -50),
    (-10, -60, -8, -20),
    (-10, -11, -12, math.nan),
    (-10, -30, -20, -9),
]


@pytest.mark.parametrize("likelihoods", [None, *CASES])
@pytest.mark.parametrize("sums", [(0.4, 0.6), (0.0, 1.0), (1.0, 0.0)])
def test_calibration_equals_stage_three(javascript, likelihoods, sums):
    expected = calibrate(None if likelihoods is None else Likelihoods(*likelihoods), *sums)
    rows = None if likelihoods is None else [None if math.isnan(v) else v for v in likelihoods]
    body = "return calibrate(given.rows && given.rows.map((v) => v ?? NaN), ...given.sums)"
    found = javascript(body, rows=rows, sums=sums)
    assert found["status"] == expected.status
    assert found["scale"] == pytest.approx(expected.scale, rel=1e-12)


TRACED = "const trace = await prepare(given.document); const method = trace.methods[0];"


@pytest.fixture(scope="module")
def document(attribution):
    return export([attribution])


@pytest.mark.parametrize(
    "target", ["response", "answer", "reasoning", "sentence 2", '"e"#2', r"/\w+t\b/", "tokens 5-9"]
)
def test_every_target_of_a_real_trace_has_python_scores(javascript, attribution, document, target):
    expected = attribution.retarget(target)
    found = javascript(
        f"{TRACED} const target = findTarget(trace, given.target);"
        "const settings = {gamma: null, hops: null, calibrated: true};"
        "const result = attribute(trace, method, target, settings);"
        "return {target, ...result, sentence: calibrationSentence(result.calibration, 'target'),"
        "details: calibrationDetails(result.calibration)}",
        document=document,
        target=target,
    )
    assert tuple(found["target"]["positions"]) == expected.target.positions
    np.testing.assert_allclose(found["scores"], expected.scores, rtol=1e-6, atol=1e-12)
    assert found["sentence"] == calibration_sentence(expected)
    assert found["details"] == calibration_details(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 0.5},
        {"hops": 2},
        {"multihop": False},
        {"calibrate": False},
        {"calibrate_on": "target"},
        {"receivers": "token"},
    ],
)
def test_options_of_the_export_and_of_the_sliders_are_python_s(javascript, attribution, options):
    chosen = Options(**options)
    likelihoods = attribution.likelihoods if chosen.calibrate else None
    target = find_target(attribution.trace, "answer")
    shares = score(attribution.trace, target, attribution.pairwise, likelihoods, chosen)
    expected = replace(attribution, target=target, options=vars(chosen), likelihoods=likelihoods, **shares._asdict())
    body = TRACED + "return attribute(trace, method, findTarget(trace, 'answer'), given.settings).scores"
    plain = {"gamma": None, "hops": None, "calibrated": True}
    found = javascript(body, document=export([expected]), settings=plain)
    np.testing.assert_allclose(found, expected.scores, rtol=1e-6, atol=1e-12)
    if options.keys() & {"gamma", "hops", "multihop", "calibrate"}:
        sliders = {"gamma": options.get("gamma"), "hops": options.get("hops"), "calibrated": chosen.calibrate}
        sliders |= {"hops": "direct"} if not chosen.multihop else {}
        found = javascript(body, document=export([attribution]), settings=sliders)
        np.testing.assert_allclose(found, expected.scores, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("made_on", ["target", "response"])
@pytest.mark.parametrize("on", ["target", "response"])
def test_every_word_is_calibrated_on_itself_or_on_the_response_as_python_does(javascript, attribution, made_on, on):
    made = replace(attribution, options={**attribution.options, "calibrate_on": made_on})
    words = [word for word in attribution.trace.words if word.kind == "response"][:12]
    targets = [tuple(range(word.start, word.stop)) for word in words]
    asked = replace(attribution, options={**attribution.options, "calibrate_on": on})
    expected = asked.retarget_all([Target("word", positions) for positions in targets])
    found = javascript(
        f"{TRACED} return given.targets.map((positions) =>"
        " attribute(trace, method, {positions}, {calibrated: true, calibrateOn: given.on}))",
        document=export([made]),
        targets=targets,
        on=on,
    )
    for one, result in zip(found, expected, strict=True):
        np.testing.assert_allclose(one["scores"], result.scores, rtol=1e-6, atol=1e-12)
        assert one["calibration"]["status"] == result.calibration.status
    shares = {round(result.image_share, 6) for result in expected if result.calibration.applied}
    assert (len(shares) == 1) == (on == "response"), "measured on the response, the image share is the same everywhere"


def test_visual_dependence_of_words_is_python_s(javascript, attribution, document):
    said = [found for found in attribution.word_dependence() if not found.word.text.startswith("<|")]
    found = javascript(f"{TRACED} return wordDependence(trace, method)", document=document)
    np.testing.assert_allclose(found, [one.nats for one in said], rtol=1e-9)
    assert javascript(f"{TRACED} return wordDependence(trace, {{likelihoods: null}})", document=document) is None


@pytest.mark.parametrize("box", [(0, 0, 50, 50), (13.5, 20, 151, 88), (-40, 100, 9000, 9000)])
def test_a_region_has_python_s_share(javascript, attribution, document, box):
    expected = box_region(attribution.trace, "cup", box)
    found = javascript(
        f"{TRACED} const region = findRegion(trace, given.words);"
        "const {scores} = attribute(trace, method, trace.target, {calibrated: true});"
        "return {...region, share: regionShare(region, scores),"
        "again: findRegion(trace, regionWords(region)).positions}",
        document=document,
        words=f"cup={','.join(map(str, box))}",
    )
    assert (tuple(found["positions"]), tuple(found["box"])) == (expected.positions, expected.box)
    assert found["share"] == pytest.approx(attribution.box_share(box), rel=1e-6)
    assert found["again"] == found["positions"]


@pytest.mark.parametrize("words", ["cup=900,900,950,950", "cup=50,50,50,60", "cup@2=1,1,5,5", "cup", "cup=1,2,3"])
def test_a_region_that_is_not_there_is_refused_as_on_the_command_line(javascript, attribution, document, words):
    with pytest.raises(InputError) as refused:
        read_regions(attribution.trace, [words])
    body = TRACED + "try { findRegion(trace, given.words); return ''; } catch (error) { return error.message; }"
    said = javascript(body, document=document, words=words)
    assert said
    if "," in words and words.count(",") == 3:
        assert said == str(refused.value)


def test_regions_that_overlap_or_leave_the_picture_are_noted_as_in_python(javascript, attribution, document):
    boxes = {"a": (0, 0, 50, 50), "b": (40, 40, 90, 90), "c": (50, -10, 90, 30)}
    regions = [box_region(attribution.trace, name, box) for name, box in boxes.items()]
    found = javascript(
        f"{TRACED} return regionNotes(Object.entries(given.boxes).map(([name, box]) => boxRegion(trace, name, box)))",
        document=document,
        boxes=boxes,
    )
    assert [note.lower().rstrip(".") for note in found] == [note.lower() for note in region_notes(regions)]
    assert len(found) == 2


def test_new_words_are_those_outside_the_longest_common_sequence(javascript):
    first, second = [*"abcde"], [*"eaxcd"]
    assert javascript("return newWords(given.a, given.b)", a=first, b=second) == [True, False, True, False, False]
    assert javascript("return newWords([], ['a'])") == [True]


@pytest.mark.parametrize(
    "settings",
    [
        {"calibrated": True},
        {"calibrated": False},
        {"gamma": 0.4, "hops": 3, "calibrated": True},
        {"hops": "direct", "calibrated": True},
    ],
)
def test_support_is_the_share_in_each_word_as_its_own_target(javascript, attribution, document, settings):
    found = javascript(
        f"{TRACED} const settings = given.settings; const words = trace.said.map(positionsOf);"
        "const chosen = [10, 40, 70].map((k) => positionsOf(trace.inputs[k]));"
        "const alone = words.map((positions) => attribute(trace, method, {positions}, settings).scores);"
        "return chosen.map((positions) => [support(trace, method, positions, words, settings),"
        " alone.map((scores) => positions.reduce((sum, p) => sum + scores[p], 0))])",
        document=document,
        settings=settings,
    )
    for at_once, one_by_one in found:
        np.testing.assert_allclose(at_once, one_by_one, rtol=1e-6, atol=1e-12)
        assert max(at_once) > 0


@pytest.mark.parametrize(
    "target", ["sentence 99", '"not there"', "/(/", "/zzz/", "tokens 5-9999", "nonsense", '"e"#999']
)
def test_a_target_that_is_not_there_is_refused_as_in_python(javascript, attribution, document, target):
    with pytest.raises(InputError):
        find_target(attribution.trace, target)
    body = TRACED + "try { findTarget(trace, given.target); return ''; } catch (error) { return error.message; }"
    assert javascript(body, document=document, target=target)


def test_ranking_and_percentages_are_those_of_the_reports(javascript, attribution, document):
    shares = [0, 0.0004, 0.001, 0.01234, 0.0994, 0.0996, 0.5, 1]
    assert javascript("return given.shares.map(percent)", shares=shares) == [percent(share) for share in shares]
    order = javascript(
        f"{TRACED} const {{scores}} = attribute(trace, method, trace.target, {{calibrated: true}});"
        "return rankingOf(scaleOf(trace.inputs, scores).shares).map((k) => trace.inputs[k].label)",
        document=document,
    )
    assert order == [item.label for item in attribution.ranking()]


def test_agreement_is_spearman_s(javascript):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 6, 40), rng.integers(0, 6, 40)
    found = javascript("return rankCorrelation(given.a, given.b, given.a.map((_, k) => k))", a=a.tolist(), b=b.tolist())
    assert found == pytest.approx(np.corrcoef(rank(a), rank(b))[0, 1], rel=1e-12)


def test_a_link_leads_back_to_the_state_it_was_made_of(javascript, document):
    body = (
        TRACED + "const state = {...stateOf(trace, given.link)};"
        "return [linkOf(trace, state), linkOf(trace, beginning(trace)), state.target.positions.length]"
    )
    link = (
        "target=tokens+3-5%2C9&gamma=0.5&hops=2&calibrated=no&on=response&look=heat&numbers=yes&opacity=0.3&strongest=0.2"
        "&input=40&region=cup%3D10%2C20%2C50.5%2C60"
    )
    assert javascript(body, document=document, link=link) == [link, "", 4]
    nonsense = "gamma=x&hops=-3&method=nope&opacity=9&strongest=0&input=zzz&other=1"
    assert javascript(body, document=document, link=nonsense)[0] == ""


@pytest.mark.parametrize(("bits", "tolerance"), [(16, 2e-4), (12, 3e-3)])
def test_rounding_the_matrix_hardly_moves_a_share(javascript, attribution, document, bits, tolerance):
    rounded = {**document, "matrices": [encode_triangle(attribution.pairwise.dense(), bits)]}
    body = TRACED + "return attribute(trace, method, findTarget(trace, given.target), {calibrated: true}).scores"
    for target in ("response", "answer", "sentence 2"):
        found = np.array(javascript(body, document=rounded, target=target))
        expected = attribution.retarget(target).scores
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-9)
