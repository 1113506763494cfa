"""The page of `sim compare`, opened from a file in a browser without a screen."""

import json
import re
import shutil
import subprocess

import pytest

NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser: scripts/setup.sh installs " + NAMES[0])

SCENARIO = """
name = "small <b>&amp;"
[[machines]]
stage = 0
site = "London"
compute_s = 0.5
slots = 4
[[machines]]
stage = 1
site = "Tokyo"
compute_s = 0.5
slots = 2
[[machines]]
stage = 1
site = "Ohio"
compute_s = 0.5
slots = 2
[links]
preset = "ten-locations"
[sizes]
message_bytes = 1e6
aggregation_bytes = 1e7
state_bytes = 1e7
microbatches_per_data_node = 4
"""

# What a reader would see, counted in the page itself.
PROBE = """<script>
document.querySelectorAll('#timeline-router button')[0].click();
document.querySelectorAll('#map-microbatch button')[1].click();
const painted = (canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
  .reduce((sum, value, k) => sum + (k % 4 === 3 && value > 0), 0) / (canvas.width * canvas.height);
document.body.dataset.probe = JSON.stringify({
  painted: [...document.querySelectorAll('canvas')].map(painted),
  errors: Object.values(charts).map((chart) => (chart.data.datasets[0].errors || []).length),
  lanes: document.querySelectorAll('#timeline .lane').length,
  bars: document.querySelectorAll('#timeline .bar').length,
  kinds: new Set([...document.querySelectorAll('#timeline .bar')].map((bar) => bar.getAttribute('fill'))).size,
  sites: document.querySelectorAll('#map .site').length,
  flows: document.querySelectorAll('#map .flow').length,
  hops: document.querySelectorAll('#layers .hop').length,
  rows: document.querySelectorAll('#table tr').length,
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  title: document.getElementById('what').textContent,
  finding: document.getElementById('finding').textContent,
  version: document.getElementById('version').textContent,
});
</script></body>"""


@pytest.fixture(scope="module")
def page(tributary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "small.toml").write_text(SCENARIO)
    done = tributary("sim", "compare", folder / "small.toml", "--routers", "gwtf,ours,protocol", "--churn", "0,0.3",
                     "--seeds", 2, "--iterations", 3, "--html", folder / "page.html")
    assert done.returncode == 0, done.stderr
    return folder / "page.html"


def open_in_browser(page, width, *options):
    """What PROBE found, and what the console said."""
    text = page.read_text()
    probed = page.with_name("probed.html")
    probed.write_text(text.replace("</body>", PROBE))
    done = subprocess.run([BROWSER, "--no-sandbox", "--headless", "--disable-gpu", "--enable-logging=stderr",
                           f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900",
                           "--virtual-time-budget=5000", *options, "--dump-dom", probed.as_uri()],
                          capture_output=True, text=True, timeout=120)
    found = re.search(r'data-probe="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(found.group(1).replace("&quot;", '"').replace("&amp;", "&")), re.findall(r".*CONSOLE.*", done.stderr)


@pytest.mark.parametrize("width, options", [(1200, []), (390, []), (1200, ["--blink-settings=preferredColorScheme=0"])],
                         ids=["wide", "phone", "dark"])
def test_charts_lanes_and_flows_are_there(page, width, options):
    seen, console = open_in_browser(page, width, *options)
    assert console == []
    assert len(seen["painted"]) == 3 and min(seen["painted"]) > 0.02
    assert 3 in seen["errors"]
    assert seen["lanes"] == 3 and seen["bars"] > 30 and seen["kinds"] >= 5
    assert seen["sites"] == 3 and seen["flows"] == 2 and seen["hops"] == 2
    assert seen["rows"] == 1 + 3 * 2
    assert not seen["wide"]
    assert "small <b>&amp;" in seen["title"].replace("&lt;", "<").replace("&gt;", ">")
    assert "protocol" in seen["finding"] and "less time" in seen["finding"]
    assert seen["version"] != ""


def test_the_page_needs_nothing_from_elsewhere(page):
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)
    assert "{{" not in text.split('<script type="application/json"')[0]
