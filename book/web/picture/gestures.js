// What a pointer, a wheel and keys do to the scene. `on` hears open, touch, point, line, step.

const FAR = 60; // how far a wheel turns for one step of the zoom

/** Listen in the scene; `isFull()` says whether a plain wheel may zoom, since there is no page to scroll. */
export function gestures(svg, { open, out, touch, point, hover, cut, change }, isFull) {
  const of = (event, name) => event.target.closest?.(`[data-${name}]`)?.dataset[name];
  const word = (event) => {
    const element = event.target.closest?.("[data-side]");
    return element && { side: element.dataset.side, at: Number(element.dataset.at) };
  };
  svg.addEventListener("click", (event) => {
    const touched = word(event);
    if (touched) touch(touched);
    else if (of(event, "line")) cut(of(event, "line"));
    else if (of(event, "off")) change("off", JSON.parse(of(event, "off")));
    else if (of(event, "give")) change("give", JSON.parse(of(event, "give")));
    else if (of(event, "open")) open(of(event, "open"));
  });
  svg.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    point(word(event) ?? null);
    hover(of(event, "line") ?? null);
  });
  svg.addEventListener("pointerleave", () => (point(null), hover(null)));
  svg.addEventListener("focusin", (event) => word(event) && point(word(event)));
  svg.addEventListener("keydown", (event) => {
    const [chosen, column] = [word(event), of(event, "open")];
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (chosen && step) touch({ ...chosen, at: chosen.at + step }, true);
    else if (event.key === "Enter" || event.key === " ") {
      if (chosen) touch(chosen);
      else if (column) open(column, true);
      else return;
    } else if (event.key === "+" && column) open(column, true);
    else if (event.key === "-" || event.key === "Escape") {
      if (!out()) return; // nothing is open: the key may mean something else
    } else return;
    event.preventDefault();
  });

  let turned = 0;
  svg.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && !isFull()) return; // the page scrolls
      event.preventDefault();
      turned += event.deltaY;
      if (Math.abs(turned) < FAR) return;
      if (turned > 0) out();
      else zoomAt(event.clientX, event.clientY);
      turned = 0;
    },
    { passive: false },
  );

  const fingers = new Map();
  let apart = 0;
  const distance = () => {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  svg.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    if (fingers.size === 2) apart = distance();
  });
  svg.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, event);
    if (fingers.size !== 2 || !apart) return;
    const factor = distance() / apart;
    if (factor > 0.75 && factor < 1.33) return;
    const [a, b] = [...fingers.values()];
    if (factor > 1) zoomAt((a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2);
    else out();
    apart = 0; // once for each pinch
  });
  for (const kind of ["pointerup", "pointercancel"])
    svg.addEventListener(kind, ({ pointerId }) => fingers.delete(pointerId));

  /** Open the column at a place of the window. */
  function zoomAt(x) {
    const at = x - svg.getBoundingClientRect().left;
    const doors = [...svg.querySelectorAll(".column:not(.leaving) .door")].filter(
      (door) => door.getAttribute("aria-expanded") === "false",
    );
    const found = doors.filter((door) => {
      const { left, right } = door.getBoundingClientRect();
      return left <= x && x <= right;
    });
    if (at >= 0 && found.length) open(found.at(-1).dataset.open);
  }
}
