"""States over the API and on the dashboard, as the commands have them."""
import json

import pytest

from browser import Browser, needs_browser
from operators import as_one
from service import Service
from states import states  # noqa: F401  a fixture


@pytest.fixture
def service(states):  # noqa: F811
    states.create()
    states.commit_files({"CLAUDE.md": "good\n"})
    states.operator.cloister("state", "tag", "brain", "known-good").ok()
    states.commit_files({"CLAUDE.md": "poisoned\n", "<img src=x>": "1"})
    states.create("notes")
    service = Service(states.operator, "--listen", "127.0.0.1:0", "--no-tls")
    yield service
    service.stop()


def test_the_service_tells_what_the_command_tells(service):
    listed = service.get("/v1/states").ok()["states"]
    assert [(s["state"], s["tags"]) for s in listed] == [("brain", ["known-good"]), ("notes", [])]
    told = json.loads(service.operator.cloister("state", "drift", "--json", "brain").ok())
    drift = service.get("/v1/states/brain/drift").ok()
    assert (drift["from"], drift["tag"]) == (told["from"], "known-good")
    assert drift["history"] == [{key: p[key] for key in ("bytes", "commit", "files", "time")} for p in told["history"]]
    assert [p["files"] for p in drift["history"]] == [2, 0, 1]
    assert len(service.get("/v1/states/brain/drift?limit=1").ok()["history"]) == 1
    assert [p["files"] for p in service.get("/v1/states/brain/drift?tag=main").ok()["history"]] == [0, 2, 2]
    service.get("/v1/states/notes/drift").error(404, "not_found", "known-good")
    service.get("/v1/states/none/drift").error(404, "not_found", "none")
    for name in ("..", "%2e%2e%2fbrain", "brain%00", "a" * 200):
        assert service.get(f"/v1/states/{name}/drift").status in (400, 404), name


@as_one
@needs_browser
def test_the_page_draws_it(service):
    page = Browser()
    page.open(service.operator.cloister("dashboard").ok().strip())
    page.see("#live:has-text('live')")
    page.run("location.hash = '#/states'")
    page.see("[data-state=brain] svg")
    assert page.count("[data-state=brain] circle.drift") == 3 and "2 files differ now" in page.text("[data-state=brain] .reading")
    assert "cloister state tag notes known-good" in page.text("[data-state=notes]")
    page.run("location.hash = '#/audit'")
    page.see(".acts-list li")
    assert "tagged" in " ".join(page.texts(".acts-list .said"))
    assert page.problems() == []
    page.close()
