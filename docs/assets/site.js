// On a phone a row of the cheat-sheet is a card: each cell takes the name of its column.
document$.subscribe(() => {
  for (const table of document.querySelectorAll(".cheat-sheet .md-typeset table")) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim())
    for (const row of table.querySelectorAll("tbody tr")) {
      ;[...row.cells].forEach((cell, column) => cell.setAttribute("data-label", names[column] ?? ""))
    }
  }
})
