"""The report in a real browser: every tab, hover, click and keys, no error, no request; light and dark, wide or not.

They need Chromium and chromedriver, which Debian has (``apt-get install chromium chromium-driver``), and selenium.
``make test-browser`` runs them; with ``DISTEMBED_SCREENSHOTS=folder`` they leave pictures to look at.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import distembed as de

selenium = pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
CHROME = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROME is None or DRIVER is None,
    reason="there is no browser: apt-get install chromium chromium-driver, then make test-browser",
)
TABS = ["Summary", "Data", "Predictions", "Methods", "Map", "Drivers", "Groups", "Error budget", "Run"]
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    bags, y = de.datasets.make_cells(120, random_state=0)
    bags = bags.replace(columns=(EVIL, "marker_b"), ids=np.array([f"{i}{EVIL}" for i in range(120)]))
    model = de.DistributionRegressor("js", n_components=50, random_state=0).fit(bags[:60], y[:60])
    path = tmp_path_factory.mktemp("browser") / "report.html"
    de.report.write(model, bags, y, path, name="severity")
    return path


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROME
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, report):
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    look(browser, 1280, "light")
    browser.get(report.as_uri())
    return browser


def look(browser, width, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def find(browser, selector):
    return browser.find_elements("css selector", selector)


def open_tab(browser, name):
    (tab,) = (each for each in find(browser, "nav button") if each.text == name)
    tab.click()


def nothing_wrong(browser):
    assert browser.get_log("browser") == []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            assert message["params"]["request"]["url"].partition(":")[0] in ("file", "data", "about")


def test_every_tab_opens_alone(page):
    assert [each.text for each in find(page, "nav button")] == TABS
    for name in TABS:
        open_tab(page, name)
        (shown,) = (each for each in find(page, "main > section") if each.is_displayed())
        assert shown.get_attribute("aria-label") == name
        assert find(page, "nav button[aria-selected=true]")[0].text == name
    nothing_wrong(page)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_of_an_exploration(browser, tmp_path, width):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(3 * (i % 2), 1, size=(20, 2)) for i in range(60)]
    bags = de.Bags.from_arrays(arrays, columns=[EVIL, "v"], ids=[f"{i}{EVIL}" for i in range(60)])
    de.report.explore(de.explore(bags), tmp_path / "bags.html", name=EVIL)
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    look(browser, width, "light")
    browser.get((tmp_path / "bags.html").as_uri())
    for name in ("Overview", "Map", "Odd bags", "Groups", "Factors", "Run"):
        open_tab(browser, name)
        (shown,) = (each for each in find(browser, "main > section") if each.is_displayed())
        assert shown.get_attribute("aria-label") == name
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    open_tab(browser, "Map")
    browser.execute_script(
        "document.querySelectorAll('#map circle')[7].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert find(browser, "#bag h3")[0].text.startswith(f"7{EVIL}: 20 points, p = ")
    nothing_wrong(browser)


def test_tabs_by_keys(page):
    from selenium.webdriver.common.keys import Keys

    find(page, "nav button")[0].send_keys(Keys.ARROW_RIGHT)
    assert page.switch_to.active_element.text == "Data"
    assert find(page, "#data")[0].is_displayed()
    page.switch_to.active_element.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert find(page, "#run")[0].is_displayed()


def test_hover_click_keys_and_search_on_the_map(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    open_tab(page, "Map")
    circles = find(page, "#map circle")
    assert len(circles) == 120
    assert "(learned from)" not in find(page, "#bag h3")[0].text  # a bag is there from the start, one that counts
    (tip,), (panel,) = find(page, "#tip"), find(page, "#bag")
    assert not tip.is_displayed()
    ActionChains(page).move_to_element(circles[119]).perform()
    assert tip.is_displayed()
    assert "predicted" in tip.text
    page.execute_script(
        "document.querySelectorAll('#map circle')[7].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert panel.find_element("css selector", "h3").text.startswith(f"7{EVIL}: predicted ")
    assert "(learned from)" in panel.text
    assert len(find(page, "#bag svg.density")) == 2
    assert find(page, "#bag svg.density polyline.solid")
    assert find(page, "#bag caption")[0].text.startswith("What the prediction owes")
    find(page, "#map svg")[0].send_keys(Keys.ARROW_RIGHT)
    assert panel.text.startswith(f"8{EVIL}: ")
    find(page, "#query")[0].send_keys(f"99{EVIL}", Keys.ENTER)
    assert panel.text.startswith(f"99{EVIL}: ")
    assert not find(page, "img")
    nothing_wrong(page)


def test_tables_sort(page):
    open_tab(page, "Predictions")
    table = find(page, "#quality table.sortable")[0]

    def errors():
        return [float(each.text.replace(",", "")) for each in table.find_elements("css selector", "td:nth-child(4)")]

    assert errors() == sorted(errors(), reverse=True)
    table.find_elements("css selector", "th button")[3].click()
    assert errors() == sorted(errors())
    assert table.find_elements("css selector", "thead th")[3].get_attribute("aria-sort") == "ascending"


def luminance(colour):
    parts = [int(each) / 255 for each in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_light_and_dark_wide_and_narrow(page, scheme, width):
    look(page, width, scheme)
    style = "const s = getComputedStyle(document.querySelector(arguments[0])); return [s.color, s.backgroundColor]"
    ink, paper = map(luminance, page.execute_script(style, "body"))
    assert (paper > 0.5) == (scheme == "light")
    quiet = luminance(page.execute_script(style, ".quiet")[0])
    for each in (ink, quiet):
        assert (max(each, paper) + 0.05) / (min(each, paper) + 0.05) >= 4.5
    for name in TABS:
        open_tab(page, name)
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        keep_picture(page, f"{name}-{scheme}-{width}".replace(" ", "_"))
    nothing_wrong(page)


def keep_picture(browser, name):
    folder = os.environ.get("DISTEMBED_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))


def test_all_sections_are_printed(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert all(each.is_displayed() for each in find(page, "main > section"))
        assert not find(page, "nav")[0].is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
