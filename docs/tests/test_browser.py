"""The built site in a real browser, which tells of every request and every error."""

from __future__ import annotations

import pytest

from docs.tests.conftest import Visit


def test_home_has_a_kernel_its_ir_and_its_output(visit: Visit) -> None:
    page = visit.open("index.html")
    assert "Mosaic TPU kernels" in page.locator("h1").inner_text()
    text = page.locator("article").inner_text()
    assert "def scale_kernel(b: Builder, rows: int) -> None:" in text
    assert "func.func @scale(" in text
    assert "hazards: none" in text
    page.get_by_role("link", name="Write").first.click()
    page.wait_for_url("**/learn/first-kernel.html")


def test_tabs_of_a_zoo_page_show_the_other_ir(visit: Visit) -> None:
    page = visit.open("zoo/matmul.html")
    ir = page.locator(".tabbed-set").first
    shown = ir.locator(".tabbed-block:visible")
    assert "KERNELS" in shown.inner_text()
    ir.get_by_text("as emitted", exact=True).click()
    assert "op for op" in shown.inner_text()
    ir.get_by_text("diff against Pallas", exact=True).click()
    assert "identical" in shown.inner_text()
    schedules = page.locator(".tabbed-set").nth(1)
    schedules.get_by_text("v6e", exact=True).click()
    drawing = schedules.locator("figure svg:visible").first
    assert "v6e" in drawing.locator("title").first.text_content()


def test_search_finds_the_part_of_a_name(visit: Visit) -> None:
    page = visit.open("index.html")
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type("dma")
    results = page.locator(".md-search-result__list")
    results.locator("li").first.wait_for(timeout=15_000)
    page.wait_for_function(
        "() => document.querySelector('.md-search-result__list').textContent.includes('enqueue_dma')", timeout=15_000
    )


def test_search_finds_a_kernel_by_what_it_is(visit: Visit) -> None:
    page = visit.open("index.html")
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type("ragged paged")
    page.locator(".md-search-result__list a[href*='ragged_paged_attention']").first.wait_for(timeout=15_000)


def test_search_finds_a_verb_of_the_command(visit: Visit) -> None:
    page = visit.open("index.html")
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type("simulate")
    found = page.locator(".md-search-result__list a[href*='reference/cli.html'][href$='#simulate']").first
    found.wait_for(timeout=15_000)
    assert "mosaic-tpu simulate" in found.inner_text()


def test_the_command_line_has_forms_that_open(visit: Visit) -> None:
    page = visit.open("reference/cli.html")
    form = page.locator("details", has_text="mosaic-tpu simulate in JSON").first
    assert not form.locator("pre").is_visible()
    form.locator("summary").click()
    assert "mosaic-tpu/simulate/1" in form.locator("pre").inner_text()


LUMINANCE = """selector => {
  const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number)
  const style = getComputedStyle(document.querySelector(selector))
  const light = colour => { const [r, g, b] = rgb(colour); return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255 }
  return [light(style.color), light(getComputedStyle(document.body).backgroundColor)]
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
        text, ground = page.evaluate(LUMINANCE, part)
        assert (ground < 0.2) == dark
        assert abs(text - ground) > 0.4, f"{part} is hardly to be seen"


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
