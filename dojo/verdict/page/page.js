"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(h => h.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => { const cell = row.cells[column]; return cell.dataset.sort ?? cell.textContent.trim(); };
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "") ;
      const by = x !== "" && y !== "" && !isNaN(x) && !isNaN(y) ? x - y : x.localeCompare(y);
      return up ? by : -by;
    });
    table.tBodies[0].append(...rows);
  }));
}
const search = document.querySelector("#search");
if (search) {
  const rows = [...document.querySelectorAll("table.searched tbody tr")];
  const texts = rows.map(row => (row.textContent + " " + (row.dataset.search ?? "")).toLowerCase());
  const look = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => shown += !(row.hidden = !words.every(word => texts[at].includes(word))));
    document.querySelector("#searched").textContent = words.length ? shown + " of " + rows.length + " rows" : "";
  };
  search.addEventListener("input", look);
  look();
}
document.addEventListener("mouseover", event => {
  const cell = event.target.closest("td.h");
  if (cell) cell.title = cell.getAttribute("aria-label");
});
for (const box of document.querySelectorAll(".wide")) {
  const cue = Object.assign(document.createElement("p"), {className: "cue", textContent: "wider than here: scroll →"});
  box.before(cue);
  const look = () => {
    cue.hidden = box.scrollWidth <= box.clientWidth + 4;
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 4);
  };
  box.addEventListener("scroll", look);
  new ResizeObserver(look).observe(box);
  look();
}
for (const figure of document.querySelectorAll(".maps")) {
  const picture = JSON.parse(figure.dataset.picture);
  for (const image of figure.querySelectorAll("img")) {
    const rows = picture[image.dataset.kind];
    image.addEventListener("mousemove", event => {
      const at = (offset, length, count) => Math.max(0, Math.min(count - 1, Math.floor(offset / length * count)));
      const c = at(event.offsetX, image.clientWidth, rows[0].length), r = at(event.offsetY, image.clientHeight, rows.length);
      image.title = picture.axes[0] + " " + (r + picture.first[0]) + ", " + picture.axes[1] + " " +
        (c + picture.first[1]) + ": " + rows[r][c] + (image.dataset.kind === "error" ? " × the allowed error" : "");
    });
  }
}
