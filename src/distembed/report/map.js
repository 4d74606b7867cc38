  // Bags of a map: what the pointer, the arrows and a typed id choose. `said` describes one, `choose` shows it.
  const svg = document.querySelector("#map svg"), circles = [...svg.querySelectorAll("circle")];
  const tip = document.getElementById("tip"), panel = document.getElementById("bag");
  const place = new Map(circles.map((circle, i) => [circle, i]));
  let here = -1;
  svg.tabIndex = 0;
  svg.addEventListener("mousemove", (event) => {
    const i = place.get(event.target);
    tip.hidden = i === undefined;
    if (i === undefined) return;
    tip.textContent = said(i);
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = event.clientY + 14 + "px";
  });
  svg.addEventListener("mouseleave", () => { tip.hidden = true; });
  svg.addEventListener("click", (event) => { const i = place.get(event.target); if (i !== undefined) choose(i); });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose((here + step + circles.length) % circles.length);
  });
  document.getElementById("query").addEventListener("change", (event) => {
    const i = all.ids.findIndex((id) => id === event.target.value);
    if (i >= 0) choose(i); else panel.textContent = unknown;
  });
