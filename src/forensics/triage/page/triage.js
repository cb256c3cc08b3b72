"use strict";
(function () {
  const section = document.getElementById("jobs");
  const finder = section && section.querySelector(".find");
  const tables = section ? Array.from(section.querySelectorAll("table.jobs")) : [];
  if (!finder || !tables.length) { return; }
  const body = tables[0].tBodies[0];
  const heads = Array.from(tables[0].tHead.rows[0].cells);
  let rows = [];
  tables.forEach(function (table) { rows = rows.concat(Array.from(table.tBodies[0].rows)); });
  const held = rows.map(function (row) {
    const cells = Array.from(row.cells);
    const values = cells.map(function (cell) { return cell.getAttribute("data-v") || cell.textContent.trim(); });
    const said = cells.map(function (cell) { return cell.textContent; }).concat(row.getAttribute("data-also") || []);
    return { row: row, values: values, text: said.join("\n").toLowerCase() };
  });
  section.querySelectorAll("details.further").forEach(function (part) { part.remove(); });
  const find = document.getElementById("find");
  const cause = document.getElementById("cause");
  const size = document.getElementById("size");
  const range = document.getElementById("range");
  const back = document.getElementById("back");
  const next = document.getElementById("next");
  const counts = new Map();
  held.forEach(function (item) { counts.set(item.values[0], (counts.get(item.values[0]) || 0) + 1); });
  Array.from(counts).sort(function (a, b) { return b[1] - a[1]; }).forEach(function (pair) {
    const option = document.createElement("option");
    option.value = pair[0];
    option.textContent = pair[0] + " (" + pair[1].toLocaleString("en") + ")";
    cause.appendChild(option);
  });
  let found = held, first = 0;
  function most() { return size.value === "all" ? held.length : Number(size.value); }
  function show() {
    const end = Math.min(first + most(), found.length);
    const shown = document.createDocumentFragment();
    found.slice(first, end).forEach(function (item) { shown.appendChild(item.row); });
    body.replaceChildren(shown);
    const of = found.length.toLocaleString("en") + (found.length === 1 ? " job" : " jobs");
    const from = (first + 1).toLocaleString("en") + "–" + end.toLocaleString("en") + " of ";
    range.textContent = end - first < found.length ? from + of : of;
    back.disabled = first === 0;
    next.disabled = end >= found.length;
  }
  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = held.filter(function (item) {
      return (!cause.value || item.values[0] === cause.value) &&
        words.every(function (word) { return item.text.includes(word); });
    });
    first = 0;
    show();
  }
  function turn(by) {
    first = Math.max(0, first + by * most());
    show();
    section.scrollIntoView();
  }
  find.addEventListener("input", filter);
  cause.addEventListener("change", filter);
  size.addEventListener("change", function () { first = 0; show(); });
  back.addEventListener("click", function () { turn(-1); });
  next.addEventListener("click", function () { turn(1); });
  document.querySelectorAll("a[data-cause]").forEach(function (link) {
    link.addEventListener("click", function () { cause.value = link.getAttribute("data-cause"); find.value = ""; filter(); });
  });
  document.querySelectorAll("a[data-find]").forEach(function (link) {
    link.addEventListener("click", function () { find.value = link.getAttribute("data-find"); cause.value = ""; filter(); });
  });
  const order = new Intl.Collator("en", { numeric: true });
  function number(text) { return Number(text.replace(/^</, "").replace(/[,%]/g, "")); }
  heads.forEach(function (head, column) {
    const numeric = column >= 4;
    head.tabIndex = 0;
    head.setAttribute("aria-sort", "none");
    function sort() {
      const up = head.getAttribute("aria-sort") !== "ascending";
      held.sort(function (a, b) {
        const x = a.values[column], y = b.values[column];
        if (!x !== !y) { return x ? -1 : 1; }
        return (up ? 1 : -1) * (numeric ? number(x) - number(y) : order.compare(x, y));
      });
      heads.forEach(function (other) { other.setAttribute("aria-sort", "none"); });
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      filter();
    }
    head.addEventListener("click", sort);
    head.addEventListener("keydown", function (event) { if (event.key === "Enter") { sort(); } });
  });
  finder.hidden = false;
  show();
})();
