// What makes pages live: charts, progress of jobs, the theme. Pages work without it, less pleasantly.
"use strict";

// light-dark() is resolved by an element that uses it, not by the variable itself.
const probe = document.createElement("span");
function resolved(name) {
  probe.style.color = `var(--${name})`;
  probe.hidden = true;
  if (!probe.isConnected) document.body.append(probe);
  return getComputedStyle(probe).color;
}

/* Charts: plotly is loaded after the first paint, and only where a page has charts. */
const drawn = new Map();  // element id -> what it was drawn from
let plotly = null;

function loadPlotly() {
  plotly ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.js";
    script.onload = () => done(window.Plotly);
    script.onerror = failed;
    document.head.append(script);
  });
  return plotly;
}

const KINDS = {
  "lines": (one) => ({ type: "scatter", mode: "lines", line: { color: one.colour, dash: one.dash, width: 2.5 } }),
  "lines+markers": (one) => ({ type: "scatter", mode: "lines+markers", line: { color: one.colour, dash: one.dash, width: 2.5 }, marker: { color: one.colour, size: 7 } }),
  "markers": (one) => ({ type: "scatter", mode: "markers", marker: { color: one.colour, size: 8 } }),
  "steps": (one) => ({ type: "scatter", mode: "lines+markers", line: { color: one.colour, shape: "hv", dash: one.dash, width: 2.5 }, marker: { color: one.colour, size: 5 } }),
  "bars": (one) => ({ type: "bar", marker: { color: one.colour } }),
};

async function draw(chart) {
  const place = document.getElementById(chart.name);
  if (!place) return;
  drawn.set(chart.name, chart);
  const Plotly = await loadPlotly();
  const ink = resolved("ink"), soft = resolved("soft"), edge = resolved("edge");
  const axis = { gridcolor: edge, zerolinecolor: edge, linecolor: edge, tickcolor: edge, automargin: true };
  const kind = { number: "linear", date: "date", category: "category" }[chart.x_kind];
  // Rounds are whole: no ticks between them.
  const places = chart.series.flatMap((one) => one.x);
  const whole = kind === "linear" && places.every(Number.isInteger) && Math.max(...places) - Math.min(...places) <= 20;
  const traces = chart.series.map((one) => ({
    name: one.name, x: one.x, y: one.y, connectgaps: true,
    ...KINDS[one.style]({ ...one, colour: resolved(one.colour) }),
  }));
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, color: ink, size: 13 },
    margin: { l: 50, r: 12, t: 8, b: 40 },
    xaxis: { ...axis, type: kind, ...(whole ? { dtick: 1 } : {}), title: { text: chart.x_label, font: { color: soft } } },
    yaxis: { ...axis, title: { text: chart.y_label, font: { color: soft } }, ...(chart.y_range ? { range: chart.y_range } : { rangemode: "normal" }) },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: ink } },
    showlegend: traces.length > 1, barmode: "group", hovermode: "x unified",
    hoverlabel: { bgcolor: resolved("card"), font: { color: ink } },
  };
  await Plotly.react(place, traces, layout, { displayModeBar: false, responsive: true });
}

function drawAll() {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const source = figure.querySelector("script[type='application/json']");
    if (source) draw(JSON.parse(source.textContent));
  }
}

/* A part of a page that is alive: <div data-live="/address" data-every="2"> is filled again with what
   the address answers (HTML); charts are drawn again. It is left alone while the focus is inside on
   something without an id. A text in [data-announce] is read out when it changes; [data-live-end]
   says that nothing more will come. */
async function refresh(part) {
  const focus = part.contains(document.activeElement) ? document.activeElement : null;
  if (document.hidden || (focus && !focus.id)) return;
  try {
    const answer = await fetch(part.dataset.live, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const open = [...part.querySelectorAll("details")].map((one) => one.open);
    part.innerHTML = await answer.text();
    if (focus) document.getElementById(focus.id)?.focus();
    announce(part.querySelector("[data-announce]")?.dataset.announce);
    part.querySelectorAll("details").forEach((one, i) => { one.open = open[i] ?? one.open; });
    for (const figure of part.querySelectorAll("figure.chart")) {
      const source = figure.querySelector("script[type='application/json']");
      if (source) draw(JSON.parse(source.textContent));
    }
    const next = part.querySelector("[data-live-end]");
    if (next) part.removeAttribute("data-live");
  } catch { /* the console is away: the next look may pass */ }
}

let announced = "";
function announce(text) {
  if (!text || text === announced) return;
  announced = text;
  document.getElementById("announce").textContent = text;
}

function keepLive() {
  for (const part of document.querySelectorAll("[data-live]")) {
    const again = async () => {
      if (!part.dataset.live) return;
      await refresh(part);
      setTimeout(again, 1000 * Number(part.dataset.every || 2));
    };
    setTimeout(again, 1000 * Number(part.dataset.every || 2));
  }
}

/* Theme: auto, light, dark in turn; kept in this browser. */
const THEMES = ["auto", "light", "dark"];
function showTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (button) { button.hidden = false; button.querySelector("span").textContent = theme; }
  for (const chart of drawn.values()) draw(chart);
}
function keepTheme() {
  let theme = THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
  showTheme(theme);
  document.getElementById("theme")?.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem("theme", theme);
    showTheme(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => showTheme(theme));
}

/* Forms that take a while say so, and are not sent twice; also those that came in later. */
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "yes";
  const button = form.querySelector("button:not([type='button'])");
  if (button) setTimeout(() => { button.disabled = true; button.setAttribute("aria-busy", "true"); }, 0);
});
// A page that comes back from the browser's memory has its buttons again.
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

keepTheme();
keepLive();
requestAnimationFrame(() => setTimeout(drawAll, 0));
