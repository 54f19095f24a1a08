// On a phone a row of a table that does not fit is a card: each cell takes the name of its column. Matrices scroll.
const phone = matchMedia("(max-width: 44.9375em)")

function asCards() {
  for (const table of document.querySelectorAll(".md-typeset table:not(.matrix table)")) {
    delete table.dataset.cards
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim())
    const fits = table.scrollWidth <= table.closest(".md-content").clientWidth - 32
    if (!phone.matches || !names.length || (fits && !table.closest(".cheat-sheet"))) continue
    for (const row of table.querySelectorAll("tbody tr")) {
      ;[...row.cells].forEach((cell, column) => cell.setAttribute("data-label", names[column] ?? ""))
    }
    table.dataset.cards = ""
  }
}

document$.subscribe(asCards)
phone.addEventListener("change", asCards)
