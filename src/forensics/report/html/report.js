"use strict";
(function () {
  const all = document.getElementById("all");
  const folds = Array.from(document.querySelectorAll("details"));
  if (all && folds.length) {
    all.hidden = false;
    all.addEventListener("click", function () {
      const open = folds.some(function (fold) { return !fold.open; });
      folds.forEach(function (fold) { fold.open = open; });
      all.textContent = open ? "close all" : "open all";
    });
  }
  let closed = [];
  window.addEventListener("beforeprint", function () {
    closed = folds.filter(function (fold) { return !fold.open && !fold.classList.contains("long"); });
    closed.forEach(function (fold) { fold.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (fold) { fold.open = false; });
  });
  function value(row, column) {
    const cell = row.cells[column];
    const held = cell ? cell.querySelector("[data-v]") : null;
    return held ? held.getAttribute("data-v") : cell ? cell.textContent.trim() : "";
  }
  const order = new Intl.Collator("en", { numeric: true });
  document.querySelectorAll("table.sortable").forEach(function (table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
      head.tabIndex = 0;
      head.setAttribute("aria-sort", "none");
      function sort() {
        const up = head.getAttribute("aria-sort") !== "ascending";
        const body = table.tBodies[0];
        const rows = Array.from(body.rows);
        rows.sort(function (a, b) {
          const x = value(a, column), y = value(b, column);
          if (!x !== !y) { return x ? -1 : 1; }
          return (up ? 1 : -1) * order.compare(x, y);
        });
        Array.from(table.tHead.rows[0].cells).forEach(function (other) { other.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.forEach(function (row) { body.appendChild(row); });
      }
      head.addEventListener("click", sort);
      head.addEventListener("keydown", function (event) { if (event.key === "Enter") { sort(); } });
    });
  });
})();
