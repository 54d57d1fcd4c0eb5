"""The console serves only its own visitors, and limits what its pages may do."""

from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tagcast_client import BearerToken

from local.console.guard import POLICY
from local.console.server import desk_for
from tests.clients.in_memory_api import refused, status
from tests.unit.console.visitor import Visitor

LANE = "/topics/orders/subscriptions/billing"


@pytest.mark.parametrize("path", ["/", "/topics/absent", "/nowhere", "/static/console.css", "/search"])
def test_every_answer_forbids_scripts_of_its_own_and_requests_to_others(visitor: Visitor, path: str) -> None:
    for seen in (visitor.get(path), visitor.act(f"{LANE}/pause", {}), visitor.act(path, {}), visitor.post(path, {})):
        assert seen.headers["Content-Security-Policy"] == POLICY
        assert seen.headers["X-Content-Type-Options"] == "nosniff"
        assert seen.headers["Referrer-Policy"] == "same-origin"
    assert "unsafe" not in POLICY


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.nip.io:{port}"]
)
def test_a_name_of_others_that_leads_to_this_machine_is_refused(visitor: Visitor, host: str) -> None:
    port = visitor.url.rpartition(":")[2]

    assert visitor.get("/", Host=host.format(port=port)).status == 403
    assert visitor.get("/", Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "http://[", "http://a:b"]
)
def test_a_page_of_another_origin_or_of_none_can_do_nothing(visitor: Visitor, ids: list[str], origin: str) -> None:
    fields = {"token": visitor.desk.token}

    assert visitor.post(f"{LANE}/pause", fields, Origin=origin).status == 403
    assert visitor.post(f"{LANE}/pause", fields, Origin="").status == 403
    assert visitor.get("/", Origin=origin).status == 403
    assert visitor.lane() == "blocked"


@pytest.mark.parametrize("token", [None, "", "0" * 32, "é"])
def test_without_the_token_of_its_pages_nothing_is_done(visitor: Visitor, ids: list[str], token: str | None) -> None:
    fields = {} if token is None else {"token": token}

    refused = visitor.post(f"{LANE}/pause", fields)
    assert (refused.status, "The form is outdated</h1>" in refused.text) == (403, True)
    assert visitor.lane() == "blocked"
    assert visitor.act(f"{LANE}/pause", {}).status == 303
    assert visitor.lane() == "paused"


def test_an_image_on_a_page_of_another_site_starts_no_spark(visitor: Visitor) -> None:
    prepared: list[str] = []
    visitor.desk.jobs.prepare = lambda: prepared.append("Spark")  # type: ignore[method-assign]

    visitor.get("/archive/ready", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"})
    assert visitor.post("/archive/ready", {}, Origin="https://evil.example").status == 403
    assert visitor.post("/archive/ready", {}).status == 403
    assert prepared == []
    assert 'hx-post="/archive/ready"' in visitor.get("/archive").text
    assert visitor.act("/archive/ready", {}).status == 204
    assert prepared == ["Spark"]


def test_where_requests_are_signed_only_who_knows_the_key_comes_in(tmp_path: Path) -> None:
    with closing(Visitor(tmp_path, key="s3cret")) as visitor:
        assert visitor.get("/").status == 403
        assert visitor.get("/?key=guess").status == 403
        entered = visitor.get("/?key=s3cret")
        assert (entered.status, entered.location) == (303, "/")
        cookie = entered.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert visitor.get("/", Cookie=cookie.partition(";")[0]).status == 200
        assert visitor.get("/", Cookie=cookie.partition("=")[0] + "=guess").status == 403


def test_an_api_that_does_not_answer_is_a_page_that_says_so(visitor: Visitor) -> None:
    def forbidden(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, json={"message": "Forbidden"})

    for accident, wanted in ((refused, 502), (forbidden, 403), (status(500), 502)):
        visitor.world.accidents = [accident, accident]
        seen = visitor.get("/")
        assert seen.status == wanted
        assert "<h1>" in seen.text


def test_who_may_read_one_topic_only_sees_its_pages(visitor: Visitor, ids: list[str]) -> None:
    def of_one_topic(request: httpx.Request) -> httpx.Response | None:
        is_about_all = request.url.path in ("/topics", "/lanes")
        return httpx.Response(403, json={"message": "Forbidden"}) if is_about_all else None

    visitor.world.accidents = [of_one_topic] * 100
    message = f"/topics/orders/messages/{ids[0]}"
    for path in (
        *("/topics/orders", LANE, message, f"{message}?why=billing", f"{message}/again?to=billing"),
        *("/search?topic=orders", f"/search?topic=orders&id={ids[0]}", "/tail?topic=orders"),
        *("/workbench?topic=orders&subscription=billing", "/topics/orders/history", f"{LANE}/skip"),
    ):
        assert visitor.get(path).status in (200, 303), path
    assert visitor.get("/").status == 403


def test_a_page_that_is_not_there_is_not_found(visitor: Visitor) -> None:
    assert visitor.get("/nowhere").status == 404
    absent = visitor.get("/topics/absent")
    assert (absent.status, "absent" in absent.text) == (404, True)
    assert visitor.act("/", {}).status == 405


def test_a_console_with_a_token_uses_it_and_admits_only_requests_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TAGCAST_TOKEN", raising=False)
    open_to_all = desk_for("http://127.0.0.1:1", tmp_path)
    assert (open_to_all.api.auth, open_to_all.key) == (None, None)
    monkeypatch.setenv("TAGCAST_TOKEN", "token")
    desk = desk_for("http://127.0.0.1:1", tmp_path)
    assert isinstance(desk.api.auth, BearerToken)
    assert desk.key is not None
