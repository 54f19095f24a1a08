"""The built site in a real browser, which tells of every request and every error."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page

from docs.tests.conftest import Visit


def test_home_has_a_kernel_its_ir_and_its_output(visit: Visit) -> None:
    page = visit.open("index.html")
    assert "Mosaic TPU kernels" in page.locator("h1").inner_text()
    text = page.locator("article").inner_text()
    assert "def scale_kernel(b: Builder, rows: int) -> None:" in text
    assert "func.func @scale(" in text
    assert "hazards: none" in text
    page.locator(".doors a").first.click()
    page.wait_for_url("**/learn/first-kernel.html")


def test_tabs_of_a_zoo_page_show_the_other_ir(visit: Visit) -> None:
    page = visit.open("zoo/matmul.html")
    ir = page.locator("#ir ~ .tabbed-set").first
    shown = ir.locator(".tabbed-block:visible")
    assert "KERNELS" in shown.inner_text()
    ir.get_by_text("as emitted", exact=True).click()
    assert "op for op" in shown.inner_text()
    ir.get_by_text("diff against Pallas", exact=True).click()
    assert "identical" in shown.inner_text()
    schedules = page.locator("#schedule-and-roofline ~ .tabbed-set").first
    schedules.get_by_text("v6e", exact=True).click()
    drawing = schedules.locator("figure svg:visible").first
    assert "v6e" in drawing.locator("title").first.text_content()


def search(page: Page, text: str, address: str) -> Locator:
    """The first result with that address, without what marks the words there; some are folded in at first."""
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type(text)
    path, _, anchor = address.partition("#")
    found = page.locator(f".md-search-result__list a[href*='{path}'][href$='#{anchor}']").first
    found.wait_for(state="attached", timeout=15_000)
    return found


def test_search_finds_the_part_of_a_name(visit: Visit) -> None:
    found = search(visit.open("index.html"), "dma", "reference/ops/tpu.html#enqueue_dma")
    assert "enqueue_dma" in (found.text_content() or "")


def test_search_finds_a_kernel_by_what_it_is(visit: Visit) -> None:
    search(visit.open("index.html"), "ragged paged", "zoo/ragged_paged_attention.html#numerics")


def test_search_finds_a_verb_of_the_command(visit: Visit) -> None:
    found = search(visit.open("index.html"), "simulate", "reference/cli.html#simulate")
    assert "mosaic-tpu simulate" in found.inner_text()


def test_the_command_line_has_forms_that_open(visit: Visit) -> None:
    page = visit.open("reference/cli.html")
    form = page.locator("details", has_text="mosaic-tpu simulate in JSON").first
    assert not form.locator("pre").is_visible()
    form.locator("summary").click()
    assert "mosaic-tpu/simulate/1" in form.locator("pre").inner_text()


CONTRAST = """selector => {
  // Colours as WCAG 2.2 has them: what is half transparent lies on the page's ground, and light is not linear.
  const parts = text => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a] }
  const ground = parts(getComputedStyle(document.body).backgroundColor)
  const [r, g, b, alpha] = parts(getComputedStyle(document.querySelector(selector)).color)
  const over = [r, g, b].map((value, n) => value * alpha + ground[n] * (1 - alpha))
  const linear = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
  const [one, other] = [light(over), light(ground)]
  return [(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), other]
}"""


@pytest.mark.parametrize(
    "visit",
    [{"color_scheme": "dark"}, {"color_scheme": "light"}],
    indirect=True,
    ids=["dark", "light"],
)
def test_colours_follow_the_system(visit: Visit, request: pytest.FixtureRequest) -> None:
    page = visit.open("zoo/matmul.html")
    dark = "dark" in request.node.name
    assert page.locator("body").get_attribute("data-md-color-scheme") == ("slate" if dark else "default")
    for part in ("article p", "figure.drawing svg"):
        contrast, ground = page.evaluate(CONTRAST, part)
        assert (ground < 0.2) == dark
        assert contrast >= 4.5, f"{part} is hardly to be seen"


def test_a_text_that_is_hardly_to_be_seen_is_found(visit: Visit) -> None:
    """The ratios are those of the tools that are built on WCAG."""
    page = visit.open("index.html")
    for colour, expected in (("#767676", 4.54), ("rgba(0, 0, 0, 0.5)", 3.95), ("#d9822b", 2.93), ("#fff", 1.0)):
        page.evaluate(
            "c => { document.body.style.background = '#fff'; document.querySelector('h1').style.color = c }", colour
        )
        assert round(page.evaluate(CONTRAST, "h1")[0], 2) == pytest.approx(expected, abs=0.04)


def test_the_reader_can_choose_dark(visit: Visit) -> None:
    page = visit.open("index.html")
    body = page.locator("body")
    schemes = {body.get_attribute("data-md-color-scheme")}
    for _ in range(2):
        page.locator("label[for^=__palette]:visible").first.click()
        schemes.add(body.get_attribute("data-md-color-scheme"))
    assert schemes == {"default", "slate"}


@pytest.mark.parametrize("visit", [{"viewport": {"width": 390, "height": 844}}], indirect=True, ids=["phone"])
def test_the_cheat_sheet_fits_a_phone(visit: Visit) -> None:
    page = visit.open("cheat-sheet.html")
    page.locator("article").get_by_role("link", name="Elementwise").click()
    page.wait_for_url("**/cheat-sheet/elementwise.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    row = page.locator(".cheat-sheet table[data-cards] tbody tr").first
    assert row.locator("td").first.get_attribute("data-label") == "Pallas"
    box = row.bounding_box()
    assert box is not None
    assert box["width"] <= 390


@pytest.mark.parametrize("visit", [{"viewport": {"width": 390, "height": 844}}], indirect=True, ids=["phone"])
@pytest.mark.parametrize(
    "path", ["index.html", "zoo/matmul.html", "learn/attention.html", "reference/ops/tpu.html", "reference/cli.html"]
)
def test_pages_fit_a_phone(visit: Visit, path: str) -> None:
    page = visit.open(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


WIDER = """() => [...document.querySelectorAll(".md-typeset table:not(.matrix table)")].filter(
  table => table.scrollWidth > document.querySelector(".md-content").clientWidth).length"""


@pytest.mark.parametrize("visit", [{"viewport": {"width": 390, "height": 844}}], indirect=True, ids=["phone"])
@pytest.mark.parametrize(
    "path",
    ["coming-from/pallas.html", "conformance/faults.html", "reference/ops/tpu.html", "reference/idioms/dma.html"],
)
def test_rows_of_a_wide_table_are_cards_on_a_phone(visit: Visit, path: str) -> None:
    page = visit.open(path)
    page.locator("table[data-cards]").first.wait_for()
    assert page.evaluate(WIDER) == 0
    cell = page.locator("table[data-cards] tbody td").nth(1)
    assert cell.get_attribute("data-label")


@pytest.mark.parametrize(
    "visit",
    [{"viewport": {"width": 390, "height": 844}}, {"viewport": {"width": 1280, "height": 900}}],
    indirect=True,
    ids=["phone", "desktop"],
)
def test_a_table_that_fits_stays_one(visit: Visit, request: pytest.FixtureRequest) -> None:
    phone = "phone" in request.node.name
    page = visit.open("learn/tiles-and-layouts.html" if phone else "coming-from/pallas.html")
    assert page.locator("table").count() > 0
    assert page.locator("table[data-cards]").count() == 0


@pytest.mark.parametrize("name", ["matmul", "ragged_paged_attention", "gated_delta_net"])
def test_tables_of_schedules_fit_the_column(visit: Visit, name: str) -> None:
    page = visit.open(f"zoo/{name}.html")
    wide = page.evaluate(
        "() => [...document.querySelectorAll('.md-typeset__scrollwrap')].map(w => w.scrollWidth - w.clientWidth)"
    )
    assert max(wide) <= 0


def test_the_cheat_sheet_prints_without_navigation(visit: Visit) -> None:
    page = visit.open("cheat-sheet/elementwise.html")
    page.emulate_media(media="print")
    assert not page.locator(".md-header").is_visible()
    assert page.locator("table").first.is_visible()
