"""The pages in a real browser, where one is installed: Debian's package `chromium`, or Chrome."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tfx_gnn.reports.comparison_page import compare_runs, name_runs, render_comparison_page
from tfx_gnn.reports.paired_metrics import PairedMetric, PairedTask
from tfx_gnn.reports.run_contents import read_contents
from tfx_gnn.reports.run_page import render_run_page
from tfx_gnn.reports.runs_page import render_runs_page

_BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(
    _BROWSER is None, reason="no Chromium here; the project's set-up installs none, because it takes 300 MB"
)

# A frame as wide as a phone, beside which the page is measured: what sticks out, and whether text can be read.
_FRAME = """<!DOCTYPE html><meta charset="utf-8"><iframe id="f" style="width:390px;height:844px;border:0"></iframe>
<pre id="found"></pre><script>
const frame = document.getElementById("f");
const channel = (x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = (color) => { const c = color.match(/[\\d.]+/g).map(Number); return c.length < 4 ? [...c, 1] : c; };
frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const behind = (one) => { for (; one; one = one.parentElement) {
    const color = parse(view.getComputedStyle(one).backgroundColor); if (color[3] > 0.5) return color; }
    return [255, 255, 255, 1]; };
  const faint = [];
  for (const one of page.querySelectorAll("body *")) {
    if (one.closest("svg") || !one.getBoundingClientRect().width) continue;
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const a = light(parse(view.getComputedStyle(one).color)), b = light(behind(one));
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) faint.push(one.tagName + " " + one.className);
  }
  const canvas = page.getElementById("viewer-canvas"), details = page.getElementById("viewer-details");
  const press = (key) => canvas.dispatchEvent(new view.KeyboardEvent("keydown", { key, bubbles: true }));
  const chosen = canvas ? [details.querySelector("h4").textContent] : [];
  if (canvas) { press("n"); chosen.push(details.querySelector("h4").textContent); }
  document.getElementById("found").textContent = JSON.stringify({
    overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth, faint, chosen,
    isDark: light(behind(page.body)) < 0.5, state: canvas ? canvas.dataset.state : "" });
}, 2500);
frame.src = "page.html";
</script>"""


@pytest.fixture(scope="module")
def pages(folders, make_run):
    run, contents = make_run(folders), read_contents(folders)
    first, second = name_runs([(run, contents), (make_run(folders, root="runs/other"), contents)])
    gain = PairedMetric(metric="accuracy", difference=0.1, lower=0.05, upper=0.15, p_value=0.001, test="bootstrap")
    pair = [first, dataclasses.replace(second, paired={"": PairedTask(num_common=4, metrics=(gain,))})]
    listed = [(run, contents.files, "task/run_1.html"), (make_run({}), {}, "")]
    return {
        "run": render_run_page(run, contents),
        "comparison": render_comparison_page(pair, compare_runs(pair)),
        "runs": render_runs_page(listed, folder="runs", num_left_out=1),
    }


@pytest.mark.parametrize(("name", "is_dark"), [("run", False), ("run", True), ("comparison", True), ("runs", False)])
def test_a_page_fits_a_phone_can_be_read_and_has_no_error(tmp_path: Path, pages, name, is_dark):
    (tmp_path / "page.html").write_text(pages[name])
    (tmp_path / "frame.html").write_text(_FRAME)

    shown = subprocess.run(
        [
            str(_BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if is_dark else 1}", "--enable-logging=stderr",
            "--virtual-time-budget=6000", "--dump-dom", (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip

    assert "CONSOLE" not in shown.stderr
    found = json.loads(shown.stdout.partition('<pre id="found">')[2].partition("</pre>")[0].replace("&lt;", "<"))
    assert found["overflow"] == 0
    assert found["faint"] == []
    assert found["isDark"] == is_dark
    if name == "run":
        assert found["state"] == "settled"
        assert found["chosen"][0].endswith("(seed)")
        assert found["chosen"][1] == "paper first"
