  // Tabs
  const nav = document.querySelector("nav"), sections = [...document.querySelectorAll("main > section")];
  nav.hidden = false;
  const tabs = sections.map((section) => {
    const tab = make("button", section.getAttribute("aria-label"), nav);
    tab.type = "button"; tab.id = "tab-" + section.id;
    tab.setAttribute("role", "tab"); tab.setAttribute("aria-controls", section.id);
    section.setAttribute("role", "tabpanel"); section.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => open(section.id));
    return tab;
  });
  function open(name, keep = true) {
    sections.forEach((section, i) => {
      const chosen = section.id === name;
      section.hidden = !chosen;
      tabs[i].setAttribute("aria-selected", chosen); tabs[i].tabIndex = chosen ? 0 : -1;
    });
    if (keep) history.replaceState(null, "", "#" + name);  // not at first: browsers scroll to it
  }
  nav.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    next.focus(); next.click();
  });
  const wanted = location.hash.slice(1);
  open(sections.some((section) => section.id === wanted) ? wanted : sections[0].id, false);

  // Tables that sort
  const value = (cell) => { const n = parseFloat(cell.textContent.replace(/,/g, "")); return isNaN(n) ? null : n; };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, j) => {
      const words = head.textContent; head.textContent = "";
      make("button", words, head).addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const x = value(a.cells[j]), y = value(b.cells[j]);
          const order = x !== null && y !== null ? x - y : a.cells[j].textContent.localeCompare(b.cells[j].textContent);
          return up ? order : -order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  }
