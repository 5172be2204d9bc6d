"use strict";
(() => {
  const summary = JSON.parse(document.getElementById("summary").textContent);
  const curves = summary.curves, answers = summary.answers.filter((a) => a.details);
  const free = summary.unconstrained, $ = (id) => document.getElementById(id);
  const slider = $("slider"), chooser = $("attribute"), curveChooser = $("curve"), peopleChooser = $("people");
  const buttons = [...document.querySelectorAll("button[data-answer]")];
  // What is shown: a point of a curve, or the answer to a question; for which attribute; and whom the chart is of.
  const state = { curve: 0, point: 0, answer: "proposed", attribute: -1, people: peopleChooser ? peopleChooser.value : "test" };
  const points = () => curves[state.curve].points;

  const percent = (x, digits = 1) => (x === null || x === undefined ? "–" : (100 * x).toFixed(digits) + "%");
  // As many digits as it takes to tell a ratio from a limit that it does not equal.
  const digits = (x) => {
    let d = 1;
    while (d < 12 && summary.limits.some((limit) => x !== limit && Number(x.toFixed(d)) === limit)) d += 1;
    return d;
  };
  const rule = (x) => (x === null || x === undefined ? "–" : x.toFixed(digits(x)) + "%");
  const span = (low, high, d = 1) => (low === null || low === undefined ? "" : low.toFixed(d) + "–" + high.toFixed(d) + "%");
  const ruleSpan = (low, high) => span(low, high, low === null || low === undefined ? 1 : Math.max(digits(low), digits(high)));
  const signed = (x, digits = 1) => (Number(x.toFixed(digits)) < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
  const count = (n) => n.toLocaleString("en");
  const people = (n) => count(n) + (n === 1 ? " person" : " people");
  const current = () => (state.answer === null ? points()[state.point] : answers.find((a) => a.key === state.answer).details);
  const fairness = (point, on = "test") => {
    const part = point[on];
    if (state.attribute >= 0) return part.attributes[state.attribute];
    return { p_rule: part.p_rule, low: part.p_rule_low, high: part.p_rule_high, ...(part.worst || {}) };
  };

  function put(id, text) { $(id).textContent = text; }

  function element(tag, text, className) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  function name(text) {
    const outer = element("span", undefined, "clip"), inner = element("bdi", text, "name");
    if (text.length > 60) outer.title = text;
    outer.append(inner);
    return outer;
  }

  function heading(text) {
    const cell = element("th");
    cell.scope = "row";
    cell.append(name(text));
    return cell;
  }

  function showCards(point) {
    const test = point.test, fair = fairness(point), before = fairness(free);
    put("accuracy", percent(test.accuracy));
    put("accuracy-more", "95%: " + span(100 * test.accuracy_low, 100 * test.accuracy_high) + "; " +
      signed(100 * (test.accuracy - free.test.accuracy)) + " points");
    put("rule", rule(fair.p_rule));
    put("rule-more", (fair.low === null || fair.low === undefined ? "" : "95%: " + ruleSpan(fair.low, fair.high) + "; ") +
      (before.p_rule === null || fair.p_rule === null ? "" : signed(fair.p_rule - before.p_rule) + " points"));
    $("rule-group").replaceChildren();
    if (fair.group) {
      const who = fair.attribute + " = " + fair.group + " against " + fair.against;
      $("rule-group").append(element("bdi", who, "name"), "; " + people(fair.people));
      $("rule-group").title = who;
    }
    put("gained", "+" + count(point.gained));
    put("lost", "−" + count(point.lost));
    put("changed", percent((point.gained + point.lost) / test.people) + " of " + count(test.people) + " people change");
    put("auc", test.auc === null ? "–" : test.auc.toFixed(3));
    put("loss", "training loss " + (point.loss_increase === null ? "–" : signed(100 * point.loss_increase, 2) + "%") + " against no limit");
    const which = state.answer === null ? "Point " + (state.point + 1) + " of " + points().length : "“" + point_question() + "”";
    put("said", which + ": " + percent(test.accuracy) + " accuracy, p%-rule " + rule(fair.p_rule) + ", " +
      people(point.gained) + (point.gained === 1 ? " gains and " : " gain and ") + people(point.lost) +
      (point.lost === 1 ? " loses" : " lose") + " the positive decision.");
  }

  const everything = () => points().concat(answers.map((a) => a.details));
  const point_question = () => answers.find((a) => a.key === state.answer).question;

  function showGroups(point) {
    const body = $("groups");
    body.replaceChildren();
    let attribute = null;
    point.test.groups.forEach((group, k) => {
      if (group.attribute !== attribute) {
        attribute = group.attribute;
        const row = element("tr", undefined, "group-head"), cell = element("th");
        cell.colSpan = 6;
        cell.scope = "colgroup";
        cell.append(name(attribute));
        row.append(cell);
        body.append(row);
      }
      const row = element("tr"), before = free.test.groups[k], bar = element("div", undefined, "bar");
      const now = element("i"), then = element("b"), cell = element("td", undefined, "wide");
      now.style.width = 100 * group.rate + "%";
      then.style.left = 100 * before.rate + "%";
      bar.setAttribute("aria-hidden", "true");
      bar.append(now, then);
      cell.append(bar);
      row.append(heading(group.group), element("td", count(group.people), "optional"), element("td", percent(before.rate)),
        element("td", percent(group.rate)), cell, element("td", "+" + count(group.gained) + " / −" + count(group.lost)));
      row.cells[3].title = "95%: " + span(100 * group.low, 100 * group.high);
      body.append(row);
    });
  }

  function showCoefficients(point) {
    const body = $("coefficients");
    body.replaceChildren(...point.coefficients.filter((c) => Math.abs(c.change) > 1e-12).map((c) => {
      const row = element("tr");
      row.append(heading(c.feature), element("td", c.before.toFixed(3)), element("td", c.after.toFixed(3)),
        element("td", signed(c.change, 3)));
      return row;
    }));
    $("coefficients-none").hidden = body.children.length > 0;
    $("coefficients-table").hidden = body.children.length === 0;
  }

  function showProof(point) {
    put("proof", point.proof.text);
    $("prices").replaceChildren(...point.covariance.map((c, k) => {
      const row = element("tr"), price = point.shadow_prices[k];
      row.append(heading(c.attribute + " = " + c.group), element("td", (Math.abs(c.value) < 5e-5 ? 0 : c.value).toFixed(4)),
        element("td", !price || price.value === null ? "–" : Math.abs(price.value).toLocaleString("en", { maximumSignificantDigits: 4 })));
      return row;
    }));
  }

  function showTable() {
    document.querySelectorAll("tr[data-point]").forEach((row) => {
      const key = curves[state.curve].key + "-" + state.point;
      const proposed = state.answer === "proposed" && row.classList.contains("chosen");
      const here = state.answer === null ? row.dataset.point === key : row.dataset.point === state.answer || proposed;
      row.classList.toggle("here", here);
    });
  }

  // The chart. Names from the data never reach it: plotly reads some of HTML in its texts.
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  const symbols = { proposed: "star", loss2: "diamond", nobody: "square", within: "triangle-up" };
  const chart = $("chart"), narrow = () => chart.clientWidth < 520;

  // Places of classifiers, with bars for their intervals unless there are so many that bars hide the rest.
  function bars(list, strong) {
    const fair = list.map((p) => fairness(p, state.people)), test = list.map((p) => p[state.people]);
    const known = fair.every((f) => f.low !== null && f.low !== undefined) && test.every((t) => t.accuracy_low !== undefined);
    const style = { visible: strong !== null && known, thickness: strong ? 2 : 1, width: 0, color: colour(strong ? "--focus" : "--before") };
    const arm = (values, minus, plus) => ({ type: "data", symmetric: false, array: values.map((v, k) => plus[k] - v), arrayminus: values.map((v, k) => v - minus[k]), ...style });
    return {
      x: fair.map((f) => f.p_rule),
      y: test.map((t) => 100 * t.accuracy),
      error_x: arm(fair.map((f) => f.p_rule), fair.map((f) => f.low), fair.map((f) => f.high)),
      error_y: arm(test.map((t) => 100 * t.accuracy), test.map((t) => 100 * t.accuracy_low), test.map((t) => 100 * t.accuracy_high)),
    };
  }

  function traces() {
    const hover = "accuracy %{y:.1f}%<br>p%-rule %{x:.1f}%<extra>%{fullData.name}</extra>";
    const made = [{
      ...bars(points(), null), name: state.curve === 0 ? "most accurate for its p%-rule" : "least loss for its covariance", mode: "lines+markers", hovertemplate: hover,
      line: { color: colour("--accent"), width: 2 }, marker: { size: 7, color: colour("--accent") },
    }];
    answers.forEach((a) => made.push({
      ...bars([a.details], false), name: a.question, mode: "markers", hovertemplate: hover,
      marker: { size: 14, symbol: symbols[a.key] || "cross", color: colour("--warn"), line: { width: 1, color: colour("--panel") } },
    }));
    made.push({
      ...bars([current()], true), name: "shown below", mode: "markers", hoverinfo: "skip",
      marker: { size: 20, symbol: "circle-open", color: colour("--focus"), line: { width: 4 } },
    });
    return made;
  }

  function layout() {
    const axis = { gridcolor: colour("--rule"), zeroline: false, ticksuffix: "%", fixedrange: true, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--ink"), family: "system-ui, sans-serif", size: 13 },
      margin: { l: 55, r: 12, t: 8, b: 45 }, dragmode: false, hovermode: "closest",
      xaxis: { ...axis, title: { text: "p%-rule (fairer →)" }, range: range(), },
      yaxis: { ...axis, title: { text: state.people === "train" ? "accuracy, people trained on" : "accuracy" }, range: height() },
      legend: narrow() ? { orientation: "h", y: -0.25, x: 0 } : { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      shapes: [{ type: "line", x0: 80, x1: 80, y0: 0, y1: 1, yref: "paper", line: { dash: "dot", width: 1.5, color: colour("--soft") } }],
      annotations: [{ x: 80, y: 0, yref: "paper", yanchor: "bottom", xanchor: "left", text: " 80%-rule", showarrow: false, font: { color: colour("--soft") } }],
    };
  }

  function range() {
    const all = everything().map((p) => fairness(p, state.people));
    const low = Math.min(75, ...all.map((f) => f.p_rule ?? 100));
    return [Math.max(0, low - 3), 102];
  }

  function height() {
    // Points that decide the same for everybody have no p%-rule, or the worst accuracy: they need not set the scale.
    const useful = everything().map((p) => p[state.people]).filter((t) => t.decides_alike === null);
    const values = (useful.length ? useful : everything().map((p) => p[state.people])).map((t) => 100 * t.accuracy);
    const low = Math.min(...values), high = Math.max(...values), room = Math.max(1, 0.15 * (high - low));
    return [low - room, high + room];
  }

  function drawChart() {
    Plotly.react(chart, traces(), layout(), { displayModeBar: false, responsive: true, staticPlot: false });
  }

  function show() {
    const point = current(), place = points()[state.point], curve = curves[state.curve];
    slider.max = points().length - 1;
    slider.value = state.point;
    put("slider-label", curve.slider);
    put("end-left", curve.ends[0]);
    put("end-right", curve.ends[1]);
    slider.setAttribute("aria-valuetext", "point " + (state.point + 1) + " of " + points().length + ", accuracy " +
      percent(place.test.accuracy) + ", p%-rule " + rule(fairness(place).p_rule));
    buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.answer === state.answer)));
    showCards(point);
    showGroups(point);
    showCoefficients(point);
    showProof(point);
    showTable();
    drawChart();
  }

  slider.addEventListener("input", () => { state.point = Number(slider.value); state.answer = null; show(); });
  buttons.forEach((b) => b.addEventListener("click", () => { state.answer = b.dataset.answer; show(); }));
  chooser.addEventListener("change", () => { state.attribute = Number(chooser.value); show(); });
  curveChooser.addEventListener("change", () => { state.curve = Number(curveChooser.value); state.point = nearest(current()); show(); });
  if (peopleChooser) peopleChooser.addEventListener("change", () => { state.people = peopleChooser.value; show(); });

  // The point of the curve nearest to a model: where the slider stands while the model is shown.
  function nearest(model) {
    const away = (p) => Math.abs((p.train.p_rule ?? 0) - (model.train.p_rule ?? 0)) + 100 * Math.abs(p.train.accuracy - model.train.accuracy);
    return points().reduce((best, p, k) => (away(p) < away(points()[best]) ? k : best), 0);
  }

  state.point = nearest(current());
  show();
  chart.on("plotly_click", (event) => {
    const at = event.points[0];
    if (at.curveNumber === 0) { state.point = at.pointNumber; state.answer = null; }
    else if (at.curveNumber <= answers.length) state.answer = answers[at.curveNumber - 1].key;
    show();
  });
  media.addEventListener("change", drawChart);
  window.addEventListener("resize", drawChart);
  const folded = [...document.querySelectorAll("details:not([open])")];
  function print(begins) {
    folded.forEach((d) => { d.open = begins; });
    document.documentElement.classList.toggle("printing", begins);
    drawChart();
  }
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
})();
