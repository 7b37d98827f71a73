"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const isNumber = head.classList.contains("number");
      const first = isNumber ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? (isNumber ? "ascending" : "descending") : first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const value = (row) => {
        const text = row.cells[column].textContent.trim();
        return isNumber ? parseFloat(text.replaceAll(",", "")) || 0 : text;
      };
      const compare = (a, b) => isNumber ? value(a) - value(b) : value(a).localeCompare(value(b));
      const sign = order === "ascending" ? 1 : -1;
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => sign * compare(a, b)));
    });
  });
}
