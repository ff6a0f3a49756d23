(() => {
  "use strict";
  const tip = document.getElementById("tip");

  // Text only: a tooltip never holds markup.
  function showTip(_, event, item, text) {
    tip.hidden = text === null || text === undefined || text === "";
    if (tip.hidden) return;
    tip.textContent = text;
    const left = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 10)}px`;
  }

  function draw(spec, container) {
    const view = new vega.View(vega.parse(vegaLite.compile(spec).spec, null, { ast: true }), {
      expr: vega.expressionInterpreter,
      loader: { load: () => Promise.reject(new Error("A report loads nothing.")) },
      renderer: "svg",
      tooltip: showTip,
      container,
    });
    view.runAsync();
    return view;
  }

  const views = {};
  for (const script of document.querySelectorAll("script[data-chart]")) {
    const name = script.dataset.chart;
    views[name] = draw(JSON.parse(script.textContent), document.getElementById(name));
  }

  const front = views["chart-front"];
  const buttons = [...document.querySelectorAll("[data-point]")];
  function choose(index) {
    for (const panel of document.querySelectorAll("[data-panel]")) {
      panel.hidden = Number(panel.dataset.panel) !== index;
    }
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.point) === index));
    }
    front.signal("chosen", index).runAsync();
  }
  for (const button of buttons) {
    button.addEventListener("click", () => choose(Number(button.dataset.point)));
  }
  if (front && buttons.length) {
    front.addEventListener("click", (_, item) => {
      if (item && item.datum && Number.isInteger(item.datum.index)) choose(item.datum.index);
    });
  }

  // On paper nothing can be opened.
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
