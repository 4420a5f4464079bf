"""The dashboard in a real Chromium, before `cloister serve` and real cells."""
import pytest

from approvals import UP, Asking
from browser import Browser, needs_browser
from operators import only_root, only_user, wait_until
from service import Service

pytestmark = needs_browser

RULES = """\
  - allow: up.example.test
    methods: [GET]
  - ask: up.example.test
    methods: [POST]
    reason: somebody must look
"""


@pytest.fixture(scope="module")
def chromium():
    browser = Browser()
    yield browser
    browser.close()


class Desk:
    """A service, a browser that is logged in, and a cell that asks."""

    def __init__(self, online, chromium, rules, *options):
        self.cell = Asking(online, rules, "--name", "desk", *options)
        self.online, self.page = online, chromium
        # The browser is in the machine's own network, and the cells' world has another.
        lab, online.operator.lab = online.operator.lab, None
        self.service = Service(online.operator, "--listen", "127.0.0.1:0", "--no-tls")
        online.operator.lab = lab
        chromium.open(online.operator.cloister("dashboard").ok().strip())
        chromium.see(".row:has-text('desk')")
        chromium.see("#live:has-text('live')")

    def go(self, hash, wait):
        self.page.run(f"location.hash = {hash!r}")
        self.page.see(wait)

    def close(self):
        problems = self.page.problems()
        self.service.stop()
        assert problems == []


@only_user
def test_cells_timeline_and_approvals_live(online, chromium):
    desk = Desk(online, chromium, RULES)
    page, cell = desk.page, desk.cell
    # What is refused is there by itself, and is text.
    assert cell.end(cell.curl("-g", "--path-as-is", "-X", "PUT", f"{UP}/<script>document.title='owned'</script>"))[0] == "403"
    page.see(".row:has-text('desk') .c-refusal :text('script')")
    assert page.run("document.title") == "Overview · cloister"
    desk.go(f"#/cell/{cell.cell}", ".timeline .row")
    page.see(".timeline .row[data-verdict=deny]")
    assert page.count("main script, main img") == 0
    page.see(".plots rect.refused")
    assert cell.end(cell.curl(f"{UP}/echo?q=1"))[0] == "200"
    page.see(".timeline .row[data-verdict=allow] :text('GET https://up.example.test/echo')")
    page.until("document.querySelector('.figures b').textContent === '2'")
    page.fill("[aria-label='Search the timeline']", "ECHO")
    page.gone(".timeline .row[data-verdict=deny]")

    # One key, and the request goes on.
    one = cell.curl("-H", "Content-Type: application/json", "-d", '{"to": "ann"}', f"{UP}/echo")
    page.see("#nav .badge:text('1')")
    page.press("Escape", "2")
    page.see(".card.chosen[data-armed]")
    card = page.text(".card")
    for part in ("POST", "up.example.test", "/echo", "desk", "somebody must look", "ask up.example.test", "application/json", 'to: "ann"', "left"):
        assert part in card, (part, card)
    page.press("a")
    assert cell.end(one)[0] == "200"
    page.see(".card[data-state=approved]")
    two = cell.curl("-d", "x", f"{UP}/two")
    page.see(".card[data-state=pending][data-armed]")
    page.press("r")
    page.type("not today")
    page.press("Enter")
    code, told = cell.end(two)
    assert code == "403" and "not today" in told
    page.see(".card[data-state=refused]")        # else the next key may still be for this one
    three = cell.curl("-d", "x", f"{UP}/echo")
    page.see(".card[data-state=pending][data-armed]")
    page.press("f")
    assert cell.end(three)[0] == "200"
    assert cell.end(cell.curl("-d", "x", f"{UP}/echo"))[0] == "200"
    # Who it was is on record.
    steered = online.events(type="steer")
    assert [(e["did"], e["by"]) for e in steered] == [(did, f"uid {online.operator.uid}") for did in ("approve", "refuse", "approve")]
    desk.close()


@only_user
def test_policy_is_shown_checked_and_set(online, chromium):
    desk = Desk(online, chromium, RULES)
    page, cell = desk.page, desk.cell
    assert cell.end(cell.curl(f"{UP}/echo"))[0] == "200"
    desk.go(f"#/cell/{cell.cell}/policy", ".rules li")
    assert page.texts(".rules .rule-hits b")[0] == "1"
    page.see("[role=status]:text('no faults')")
    text = page("value", what=".editor textarea")
    page.fill(".editor textarea", text.replace("methods", "metods", 1))
    page.see(".faults li:has-text('metods')")
    page.see(".gutter .fault")
    page.fill(".editor textarea", text.replace("GET", "HEAD", 1))
    page.until("!document.querySelector('form.set button.good').disabled")
    page.fill("[aria-label='Why it is changed']", "heads only")
    page.press("Enter")
    page.see(".note:has-text('in force')")
    assert cell.end(cell.curl(f"{UP}/echo"))[0] == "403"
    page.see(".rules li")
    page.fill("[aria-label=Rule]", "up.example.test")
    page.fill("[aria-label=Why]", "again")
    page.click(".quick button:text('Allow')")
    page.see(".note:has-text('Allowed')")
    assert cell.end(cell.curl(f"{UP}/echo"))[0] == "200"
    assert [(e["did"], e["why"]) for e in online.events(type="steer")] == [("policy", "heads only"), ("allow", "again")]
    desk.close()


@only_user
def test_budget_and_secrets(online, chromium):
    online.operator.cloister("secret", "add", "KEY", "--host", "up.example.test", input="real-value-1234567\n").ok()
    desk = Desk(online, chromium, "version: 1\negress:\n  - allow: up.example.test\nbudgets:\n  - {per: cell, requests: 2, then: refuse}\n", "-s", "KEY")
    page, cell = desk.page, desk.cell
    for _ in range(2):
        assert cell.end(cell.curl(f"{UP}/echo"))[0] == "200"
    assert cell.end(cell.curl(f"{UP}/echo"))[0] != "200"
    desk.go(f"#/cell/{cell.cell}/budget", ".budgets li:has-text('reached')")
    page.fill(".budgets li:has-text('requests') input", "3")
    page.press("Enter")
    page.see(".budgets li:has-text('2 of 3')")
    assert cell.end(cell.curl(f"{UP}/echo"))[0] == "200"
    desk.go(f"#/cell/{cell.cell}/secrets", "[data-secret=KEY]")
    page.click("[data-secret=KEY] button:text('Revoke')")
    page.click("[data-secret=KEY] button:text('Press again')")
    page.see("[data-secret=KEY] :text('revoked')")
    assert "real-value" not in page.text("body")
    desk.close()


@only_root
def test_freeze_all_emergency_stop_and_audit(online, chromium):
    desk = Desk(online, chromium, RULES)
    page, cell = desk.page, desk.cell
    page.press("Control+.")
    page.press("Control+.")
    page.see("dialog.stop :text('Froze 1 cell.')")
    assert online.operator.cell(cell.cell)["state"] == "frozen"
    page.click("dialog.stop :text('Thaw all')")
    page.see("dialog.stop :text('Thawed 1 cell.')")
    page.see(".row:has-text('desk') :text('running')")
    page.click("dialog.stop :text('Kill every cell')")
    page.click("dialog.stop :text('Press again')")
    page.see("dialog.stop :text('Killed 1 cell.')")
    page.see("text=No cell runs.")
    page.press("Escape")
    page.press("6")
    page.see(".seal:has-text('Every record is as it was written.')")
    page.see("li:has-text('started cell')")
    desk.close()


@only_user
def test_registry_and_dispatches(operator, chromium):
    operator.file("echo.yaml", "name: echo\ndescription: <i>says</i> it again\ncommand: [sh, -c, 'cat; echo ''<script>x</script>'' >/out/note']\n")
    operator.cloister("agent", "register", operator.base / "echo.yaml").ok()
    operator.file("echo.yaml", "name: echo\ndescription: <i>says</i> it once more\ncommand: [sh, -c, 'cat; echo ''<script>x</script>'' >/out/note']\n")
    operator.cloister("agent", "register", operator.base / "echo.yaml").ok()
    service = Service(operator, "--listen", "127.0.0.1:0")
    told = service.post("/v1/dispatches", {"agent": "echo", "input": "<b>hello</b>\n"}).ok(202)
    operator.kept.add(told.get("cell") or "")
    chromium.open(operator.cloister("dashboard").ok().strip())  # no warning of a certificate is in the way
    chromium.see("#live:has-text('live')")
    chromium.press("4")
    chromium.see(".name:has-text('<i>says</i> it once more')")
    chromium.click(".name:has-text('echo')")
    chromium.see(".diff .del:has-text('it again')")
    wait_until(lambda: service.get(f"/v1/dispatches/{told['id']}").ok()["state"] == "finished", "it is over")
    operator.kept.add(service.get(f"/v1/dispatches/{told['id']}").ok()["cell"])
    chromium.press("3")
    chromium.click(f"a:text('{told['id']}')")
    chromium.see(".output:has-text('<b>hello</b>')")
    chromium.see(".files a:text('note')")
    assert chromium.problems() == []
    service.stop()


@only_user
def test_changes_are_reviewed_and_applied(operator, chromium):
    work = operator.folder("work", {"main.c": "int main(void) { return 1; }\n", "old.txt": "old\n"})
    operator.sh(f"cd {work} && echo 'int main(void) {{ return 0; }}' >main.c && rm old.txt && mkdir .vscode && echo '<script>{{}}</script>' >.vscode/tasks.json",
                "-w", work, "--name", "coder").ok()
    service = Service(operator, "--listen", "127.0.0.1:0")
    chromium.open(operator.cloister("dashboard").ok().strip())
    chromium.click(".need-list a:has-text('coder changed files')")
    chromium.see(".held-note:has-text('1 held back')")
    chromium.click(".changed button:has-text('main.c')")
    chromium.see(".diff.review .add:has-text('return 0')")
    chromium.click(".changed button:has-text('tasks.json')")
    chromium.see(".diff.review .add:has-text('<script>')")
    chromium.click("button:text-is('Apply 2')")
    chromium.see(".note:has-text('Applied 2 changes')")
    assert (work / "main.c").read_text() == "int main(void) { return 0; }\n" and not (work / "old.txt").exists() and not (work / ".vscode").exists()
    chromium.see(".changed li:has-text('tasks.json')")
    chromium.click("button:text-is('Discard all')")
    chromium.click("button:has-text('Press again: all changes')")
    chromium.see("text=The changes are discarded.")
    chromium.press("t")
    chromium.see(".timeline .row:has-text('cell.end')")
    # Who asked for it, and what was done.
    chromium.press("6")
    chromium.see(f"li:has-text('uid {operator.uid} asked to apply 2 paths of cell')")
    chromium.see("li:has-text('applied 2 changes of cell')")
    chromium.see("li:has-text('discarded the changes of cell')")
    assert chromium.problems() == []
    service.stop()
