"""The report in a real browser: by mouse and keyboard, wide and narrow, light and dark, without a network."""

import base64
import json
import shutil

import pytest

from conftest import BROWSERS
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.report import to_html
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.jobs import trace
from fairmargin.tables.specifications import make_estimator
from test_report import HOSTILE, audit_summary_of, hostile_frame, hostile_summary

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(path for name in BROWSERS if (path := shutil.which(name)))
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def summary():
    table = table_of_frame(make_credit_demo(1500), "demo")
    study = prepare(table, target="repaid", positive="yes", sensitive=["sex", "origin"])
    return trace(study, make_estimator(), n_points=11)


@pytest.fixture(scope="module")
def page(summary, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(to_html(summary), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for name, content in (("frontier", hostile_summary(3)), ("audit", audit_summary_of(hostile_frame()))):
        (folder / f"{name}.html").write_text(to_html(content), encoding="utf-8")
    return folder


def open_page(driver, path, size="desktop", scheme="light"):
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get_log("performance")
    driver.get_log("browser")
    driver.get(path.as_uri())


def assert_quiet(driver):
    """No message on the console, and no request but for the file itself and data in it."""
    assert driver.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in asked) == 1


def shown(driver):
    """What the page says about the point that is shown, and where the chart marks it."""
    text = {name: driver.find_element("id", name).text for name in ("accuracy", "rule", "gained", "lost", "said")}
    mark = driver.execute_script("const t = document.getElementById('chart').data.at(-1); return [t.x[0], t.y[0]];")
    return text, mark


def choose(driver, control, value):
    driver.find_element("css selector", f"#{control} option[value='{value}']").click()


def expected(point):
    return f"{100 * point['test']['accuracy']:.1f}%", f"{point['test']['p_rule']:.1f}%"


def assert_shows(driver, point, people="train"):
    text, mark = shown(driver)
    assert (text["accuracy"], text["rule"]) == expected(point)
    assert mark == pytest.approx([point[people]["p_rule"], 100 * point[people]["accuracy"]])
    assert (text["gained"], text["lost"]) == (f"+{point['gained']}", f"−{point['lost']}")
    assert driver.execute_script("return document.getElementById('proof').textContent") == point["proof"]["text"]
    first = driver.find_element("css selector", "#groups tr:not(.group-head)").text
    assert f"{100 * point['test']['groups'][0]['rate']:.1f}%" in first


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_slider_by_keyboard_and_mouse(driver, page, summary, size, scheme):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    open_page(driver, page, size, scheme)
    points = summary["curves"][1]["points"]
    slider = driver.find_element("id", "slider")
    assert_shows(driver, summary["answers"][0]["details"])  # it opens on the model proposed
    choose(driver, "curve", "1")
    assert_shows(driver, summary["answers"][0]["details"])  # which stays, whatever the curve
    slider.send_keys(Keys.HOME)
    assert_shows(driver, points[0])
    slider.send_keys(Keys.ARROW_RIGHT * 3)
    assert_shows(driver, points[3])
    assert slider.get_attribute("aria-valuetext").startswith("point 4 of 11, accuracy ")
    assert shown(driver)[0]["said"].startswith("Point 4 of 11: ")
    slider.send_keys(Keys.END)
    assert_shows(driver, points[10])
    slider.send_keys(Keys.HOME)
    assert_shows(driver, points[0])
    # By mouse: take the handle at the left end and drag it to the middle.
    width = slider.size["width"]
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", slider)
    hold = ActionChains(driver).move_to_element_with_offset(slider, -width // 2 + 9, 0).click_and_hold()
    hold.move_by_offset(width // 2 - 9, 0).release().perform()
    assert int(slider.get_property("value")) == 5
    assert_shows(driver, points[5])
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert_quiet(driver)


@pytest.mark.parametrize("size", SIZES)
def test_answers_attributes_and_chart(driver, page, summary, size):
    from selenium.webdriver import ActionChains

    open_page(driver, page, size)
    rows = {row["key"]: row for row in summary["candidates"]}
    for answer in summary["answers"]:
        button = driver.find_element("css selector", f"button[data-answer={answer['key']}]")
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert_shows(driver, answer["details"])
        here = driver.find_elements("css selector", "tr.here")
        (key,) = [row.get_attribute("data-point") for row in here]
        assert key == answer["key"] or (answer["key"] == "proposed" and rows[key]["chosen"])
    driver.find_element("css selector", "#attribute option[value='1']").click()
    point = summary["answers"][-1]["details"]["test"]["attributes"][1]
    assert shown(driver)[0]["rule"] == f"{point['p_rule']:.1f}%"
    # A click on a point of the chart shows it.
    choose(driver, "curve", "1")
    places = "return [...document.querySelectorAll('#chart .scatterlayer .trace:first-child .points path')]"
    last = driver.execute_script(places)[-1]
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", last)
    ActionChains(driver).move_to_element(last).click().perform()
    assert int(driver.find_element("id", "slider").get_property("value")) == 10
    assert_quiet(driver)


def test_the_first_curve_is_that_of_the_rule_and_no_marker_beats_it(driver, page, summary):
    from selenium.webdriver.common.keys import Keys

    open_page(driver, page)
    data = driver.execute_script("return document.getElementById('chart').data.map((t) => [t.x, t.y])")
    curve = [(x, y) for x, y in zip(*data[0], strict=True) if x is not None]
    for (x,), (y,) in data[1:]:
        assert max((b for a, b in curve if a >= x - 1e-9), default=0.0) >= y - 1e-9 or x > max(a for a, _ in curve)
    choose(driver, "people", "test")
    assert_shows(driver, summary["answers"][0]["details"], "test")
    slider = driver.find_element("id", "slider")
    slider.send_keys(Keys.HOME)
    assert_shows(driver, summary["curves"][0]["points"][0], "test")
    assert_quiet(driver)


def test_the_answer_comes_first(driver, page, summary):
    for size in SIZES:
        open_page(driver, page, size)
        text = driver.find_element("tag name", "main").text
        verdict = summary["proposal"]["verdict"]
        assert text.index(verdict["headline"]) < text.index("Warnings") < text.index("Explore the trade-off")
        for line in summary["proposal"]["lines"]:
            assert f"{line['question']}" in text[: text.index("Evidence")]
        top = driver.execute_script("return document.querySelector('.headline').getBoundingClientRect().bottom")
        assert top < SIZES[size][1]  # on the first screen
        assert_quiet(driver)


def test_keyboard_reaches_every_control(driver, page):
    from selenium.webdriver.common.keys import Keys

    open_page(driver, page)
    reached = []
    for _ in range(60):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        active = driver.switch_to.active_element
        reached.append(active.get_attribute("id") or active.get_attribute("data-answer") or active.tag_name)
    assert reached[0] == "a"  # skip to the content
    assert {"curve", "people", "attribute", "slider", "proposed", "loss2", "nobody", "summary"} <= set(reached)


def test_dark_and_light_differ(driver, page):
    grounds = []
    for scheme in ("light", "dark"):
        open_page(driver, page, "desktop", scheme)
        ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        ink = driver.execute_script("return document.getElementById('chart').layout.font.color")
        grounds.append([ground, ink])
    assert grounds[0] == ["rgb(251, 250, 247)", "#1d2226"]
    assert grounds[1] == ["rgb(20, 23, 26)", "#e8e6e1"]


def test_prints(driver, page):
    open_page(driver, page)
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    assert pdf.startswith(b"%PDF")
    assert 2 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") <= 25


@pytest.mark.parametrize("size", SIZES)
def test_hostile_names_are_shown_and_not_executed(driver, hostile, size):
    from selenium.webdriver.common.keys import Keys

    for name in ("frontier", "audit"):
        open_page(driver, hostile / f"{name}.html", size)
        if name == "frontier":
            driver.find_element("id", "slider").send_keys(Keys.ARROW_RIGHT * 2)
            seen = driver.execute_script("return document.getElementById('groups').textContent")
            assert all(HOSTILE[key] in seen for key in ("end", "emoji", "script", "rtl", "quotes", "long"))
        assert "executed" not in driver.title.replace(HOSTILE["script"], "").replace(HOSTILE["end"], "")
        assert driver.execute_script("return document.images.length") == 0
        assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        assert_quiet(driver)
