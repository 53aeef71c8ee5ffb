"""Memory of a served process: bounded whatever is uploaded or opened at once, and given back."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from support.serving import picture, resident, served

pytestmark = pytest.mark.slow
UPLOADS, PAGES, PEAK = 40, 12, 1500  # megabytes


def one_bit(side: int = 4898) -> bytes:
    """24 megapixels in about 3 kB."""
    buffer = io.BytesIO()
    Image.new("1", (side, side)).save(buffer, "PNG")
    return buffer.getvalue()


def test_forty_uploads_of_24_megapixels_and_twelve_pages_at_once(tmp_path, record_property):
    data = one_bit()
    assert len(data) < 10_000
    with served(tmp_path, "--max-new-tokens", 1024, "--methods", "vtrace,vtrace-ordered,ifr,rollout") as (
        process,
        client,
    ):
        started = resident(process.pid)
        with ThreadPoolExecutor(UPLOADS) as pool:  # of what is no picture
            refused = list(pool.map(lambda _: client.ask((bytes(30_000_000),))[0], range(UPLOADS)))
        assert set(refused) <= {422, 429}
        assert resident(process.pid) < started + 200, "nothing of it is kept"
        experiments = f"/api/explanations/{'0' * 32}/experiments"
        form = {"content-type": "multipart/form-data; boundary=x"}
        with ThreadPoolExecutor(UPLOADS) as pool:  # of JSON that claims to be files
            sent = pool.map(lambda _: client.send("POST", experiments, bytes(30_000_000), form)[0], range(UPLOADS))
            assert set(sent) <= {422, 429}
        assert resident(process.pid) < started + 200, "nothing of it is kept"
        with ThreadPoolExecutor(UPLOADS) as pool:
            answers = list(pool.map(lambda _: client.ask((data,)), range(UPLOADS)))
        assert {status for status, *_ in answers} <= {202, 429}
        accepted = [made["id"] for status, _, made in answers if status == 202]
        assert accepted
        assert client.wait(accepted[0])["status"] == "done"
        for id in accepted[1:]:
            client.send("POST", f"/api/explanations/{id}/cancel")
            client.wait(id)
        uploads = resident(process.pid, "VmHWM")
        methods = ["vtrace", "vtrace-ordered", "ifr", "rollout"]
        made = client.ask((picture(size=(1200, 1200)),) * 3, methods=methods, question="What is it? " * 250)[2]
        assert client.wait(made["id"])["status"] == "done"
        with ThreadPoolExecutor(PAGES) as pool:
            pages = list(pool.map(lambda _: client.send("GET", f"/api/explanations/{made['id']}/page"), range(PAGES)))
        assert {status for status, *_ in pages} == {200}
        peak, left = resident(process.pid, "VmHWM"), resident(process.pid)
        print(f"start {started:.0f} MB, peak of uploads {uploads:.0f} MB, of pages {peak:.0f} MB, left {left:.0f} MB")
        assert peak < PEAK
        assert left < started + 400, "memory is given back"
