"""The report in a real browser: offline, drawn, clickable, printable, on a phone, and harmless."""

import base64
import shutil
import warnings
from math import inf

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, pareto_front
from fairmix.datasets import make_grouped_blobs
from fairmix.report import render
from fairmix.results.profile import Profile

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

HOSTILE = "<script>alert(1)</script>"
MARKS = "#chart-front .mark-symbol.role-mark path"
# Seconds after which a browser counts as stuck, however busy the machine is.
STUCK = 600


@pytest.fixture(scope="module")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium with chromedriver found: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    found.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    found.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with every part, and hostile names wherever a name can be."""
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=1.5, imbalance=0.3, random_state=0)
    groups = np.array([HOSTILE, "<b>m</b>"])[np.unique(groups, return_inverse=True)[1]]
    model = FairMixture(3, max_gap=0.02, assignment="aware", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sensitive_features=groups)
        front = pareto_front(
            FairMixture(3, assignment="aware", random_state=0),
            X,
            sensitive_features=groups,
            max_gaps=(0, 0.02, 0.1, inf),
        )
    frame = pd.DataFrame(X, columns=[HOSTILE, "</script><script>alert(2)</script>"])
    frame["town"] = np.where(model.labels_ == 0, HOSTILE, "elsewhere")
    frame["<img src=x onerror=alert(3)>"] = groups
    profile = Profile.from_frame(
        frame,
        model.labels_,
        "<img src=x onerror=alert(3)>",
        clusters=["0", "1", "2"],
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    facts = {HOSTILE: HOSTILE, "file": "x" * 300}
    html = render(profile, model=model, front=front, facts=facts)
    path.write_text(html, encoding="utf-8")
    return path


@pytest.fixture
def page(browser, report):
    """The report, opened afresh."""
    browser.get_log("browser")
    browser.get(report.as_uri())
    wait_for_marks(browser)
    return browser


def wait_for_marks(browser, marks=MARKS):
    """The marks of a chart, as soon as it is drawn."""
    return WebDriverWait(browser, STUCK).until(lambda b: b.find_elements(By.CSS_SELECTOR, marks))


def wait_for_panel(browser, name):
    """Until one panel, and no other, is shown."""
    WebDriverWait(browser, STUCK).until(lambda b: shown_panels(b) == [name])


def shown_panels(browser) -> list[str]:
    panels = browser.find_elements(By.CSS_SELECTOR, "[data-panel]")
    return [panel.get_attribute("data-panel") for panel in panels if panel.is_displayed()]


def test_it_opens_offline_without_a_message_on_the_console(page):
    assert page.execute_script("return navigator.onLine") is False
    assert page.get_log("browser") == []
    loaded = page.execute_script("return performance.getEntriesByType('resource').length")
    assert loaded == 0


def test_the_front_and_the_convergence_are_drawn(page):
    assert len(page.find_elements(By.CSS_SELECTOR, MARKS)) == 4
    for name in ("convergence-0", "convergence-1"):
        (line,) = wait_for_marks(page, f"#chart-{name} .mark-line path")
        assert "L" in line.get_attribute("d"), "a line of more than one point"


def test_a_click_on_a_point_changes_the_clusters_shown(page):
    assert shown_panels(page) == ["1"]
    before = page.find_element(By.ID, "panels").text
    page.execute_script("document.getElementById('front').scrollIntoView()")
    last = page.find_elements(By.CSS_SELECTOR, MARKS)[3]
    ActionChains(page).move_to_element(last).click().perform()
    wait_for_panel(page, "3")
    after = page.find_element(By.ID, "panels").text
    assert after != before
    assert after.startswith("No bound")
    pressed = page.find_elements(By.CSS_SELECTOR, "[data-point][aria-pressed=true]")
    assert [button.text for button in pressed] == ["none"]
    tip = page.find_element(By.ID, "tip")
    WebDriverWait(page, STUCK).until(lambda _: tip.is_displayed())
    assert tip.text.startswith("no bound: gap 0.")


def test_a_button_chooses_a_point_without_a_mouse(page):
    page.find_elements(By.CSS_SELECTOR, "[data-point]")[0].send_keys("\n")
    wait_for_panel(page, "0")
    assert page.get_log("browser") == []


def test_hostile_names_are_text_and_run_nothing(page):
    assert HOSTILE in page.find_element(By.TAG_NAME, "body").text
    assert page.find_elements(By.CSS_SELECTOR, "img, main script, main b b") == []
    with pytest.raises(Exception, match="no such alert"):
        _ = page.switch_to.alert.text


@pytest.mark.parametrize(
    ("state", "colour"),
    [
        ("met", "rgb(0, 121, 90)"),
        ("partly", "rgb(0, 121, 90)"),
        ("chance", "rgb(201, 130, 0)"),
        ("missed", "rgb(179, 38, 30)"),
        ("measured", "rgb(90, 101, 114)"),
    ],
)
def test_the_box_has_the_colour_of_its_verdict(page, state, colour):
    found = page.execute_script(
        "const box = document.querySelector('.verdict'); box.className = `verdict ${arguments[0]}`;"
        "const style = getComputedStyle(box);"
        "return [style.borderLeftColor, style.borderLeftStyle, style.backgroundColor]",
        state,
    )
    assert found[:2] == [colour, "dashed" if state == "partly" else "solid"]
    assert found[2] != "rgba(0, 0, 0, 0)"


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_no_width_scrolls_sideways(page, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.refresh()
    wait_for_marks(page)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    drawn = page.execute_script(
        "return document.querySelector('#chart-front svg').getBoundingClientRect().right"
    )
    assert drawn <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_it_prints_with_its_tables_open(page):
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    assert page.execute_script("return document.querySelector('details').open") is True


def test_without_scripts_the_figures_are_still_there(browser, report):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(report.as_uri())
    text = browser.find_element(By.TAG_NAME, "body").text
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "The bound is met" in text
    assert "Bound 0.02: gap" in text
    assert "Charts need JavaScript" in text
