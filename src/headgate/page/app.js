// Headgate's page: reads what /debug/live says as it changes, and asks for one object when it is opened. It changes nothing.
"use strict";

const COLUMNS = ["healthy", "initial", "unhealthy", "draining"];
const JOURNAL_KEPT = 2000;
const JOURNAL_SHOWN = 300;
const SETS_TURNS = 5;

const state = {
  live: false, elsewhere: null, answeredBy: null, leadsSince: null, problems: [], leaving: [], sets: [], groups: new Map(), replicas: [],
  journal: [], filter: "", kind: "",
};

// ---- building elements: everything that comes from outside is text, never markup

function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function table(caption, heads, rows) {
  const head = heads.map((text) => el("th", { scope: "col", class: text.startsWith("#") ? "number" : null }, text.replace("#", "")));
  return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}

const number = (value) => el("td", { class: "number" }, String(value));
const cell = (...children) => el("td", {}, ...children);
const groupLink = (group) => el("a", { href: "#/group/" + encodeURIComponent(group.arn) }, group.name);
const podLink = (namespace, name) => el("a", { href: `#/pod/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, name);

function stateClass(word) {
  if (!word) return "";
  if (word.startsWith("unhealthy")) return "unhealthy";
  return COLUMNS.includes(word) ? word : "other";
}

function health(word, because) {
  if (!word) return el("span", { class: "faint" }, "not there");
  return el("span", { class: "state " + stateClass(word) }, word + (because ? ` (${because})` : ""));
}

function clock(time) {
  return time ? new Date(time).toISOString().slice(11, 23) + "Z" : "";
}

function age(time) {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(time)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  return seconds < 7200 ? `${Math.floor(seconds / 60)}m` : `${Math.floor(seconds / 3600)}h`;
}

const nameOf = (arn) => (arn || "").split("/")[1] || arn;

// ---- what has become of something, in words (as `headgate explain` says it)

function told(entry) {
  const because = entry.reason ? ` (${entry.reason})` : "";
  const place = entry.target ? `${nameOf(entry.targetGroup)} ${entry.target}: ` : "";
  const words = {
    "wanted": `should be there${because}`,
    "registered": "AWS has taken its registration",
    "not-registered": `AWS has not taken its registration${because}`,
    "health": `${entry.before || "not there"} → ${entry.now || "not there"}${because}`,
    "unwanted": `should go${because}`,
    "deregistered": "AWS has taken its removal",
    "not-deregistered": `AWS has not taken its removal${because}`,
    "gate": `readiness gate ${entry.now}`,
    "eviction-waits": `its eviction waits${because}`,
    "eviction-allowed": `its eviction is let through${because}`,
    "ended": "nothing in it answers any more",
    "gone": "its object is gone",
    "node-goes": `is about to go${because}`,
    "node-stays": "stays",
    "leads": "this replica leads",
    "stands-by": "this replica leads no more",
    "said": `said: ${entry.reason}: ${entry.message}`,
  };
  return place + (words[entry.what] || entry.what + because);
}

function subject(entry) {
  if (entry.kind === "Pod") return podLink(entry.namespace, entry.name);
  return `${entry.kind} ${entry.name || ""}`.trim();
}

// ---- the life of one target as a line

function life(entries, what) {
  const spans = [];
  let now = { state: "none", from: null };
  const turn = (word, at) => {
    if (now.from !== null && now.state !== "none") spans.push({ ...now, to: at });
    now = { state: word, from: at };
  };
  for (const entry of entries) {
    const at = new Date(entry.at).getTime();
    if (entry.what === "wanted") turn("wanted", at);
    else if (entry.what === "health") turn(entry.now ? stateClass(entry.now) || "none" : "none", at);
    else if (entry.what === "deregistered" && now.state !== "draining") turn("draining", at);
  }
  if (!entries.length || (now.from === null)) return null;
  const begins = new Date(entries[0].at).getTime();
  const open = now.state !== "none";
  const ends = open ? Math.max(Date.now(), now.from + 1) : now.from;
  if (open) spans.push({ ...now, to: ends });
  const scale = 1000 / Math.max(1, ends - begins);
  const rects = spans.map((span) => svg("rect", {
    class: span.state, x: (span.from - begins) * scale, y: 6, width: Math.max(2, (span.to - span.from) * scale), height: 20,
  }, svg("title", {})));
  spans.forEach((span, at) => { rects[at].firstChild.textContent = `${span.state} from ${clock(span.from)} to ${clock(span.to)}`; });
  const marks = entries.filter((entry) => ["registered", "unwanted", "deregistered"].includes(entry.what)).map((entry) => {
    const x = (new Date(entry.at).getTime() - begins) * scale;
    return svg("line", { x1: x, x2: x, y1: 2, y2: 30 });
  });
  const said = spans.map((span) => `${span.state} ${clock(span.from)} to ${clock(span.to)}`).join(", ");
  return svg("svg", { class: "life", viewBox: "0 0 1000 32", preserveAspectRatio: "none", role: "img", "aria-label": `${what}: ${said}` }, ...rects, ...marks);
}

function byTarget(entries) {
  const all = new Map();
  for (const entry of entries.filter((entry) => entry.target)) {
    const key = `${nameOf(entry.targetGroup)} ${entry.target}`;
    all.set(key, (all.get(key) || []).concat([entry]));
  }
  return all;
}

// ---- the views

function overview() {
  const rows = [];
  for (const group of [...state.groups.values()].sort((one, other) => one.name.localeCompare(other.name))) {
    const zones = group.zones.length ? group.zones : [{ zone: "-", wanted: 0, serving: 0, states: {} }];
    zones.forEach((zone, at) => {
      const others = Object.entries(zone.states).filter(([word]) => !COLUMNS.includes(word)).map(([word, count]) => `${count} ${word}`);
      const notes = at === 0 ? others.concat(also(group)) : others;
      rows.push(el("tr", {},
        at === 0 ? el("th", { scope: "row", rowspan: zones.length }, groupLink(group)) : null,
        cell(zone.zone || "-"), number(zone.wanted), number(zone.serving),
        ...COLUMNS.map((word) => number(zone.states[word] || 0)), el("td", { class: "wide" }, notes.join(", "))));
    });
  }
  const groups = rows.length ? [el("h2", {}, "Target groups by zone"),
    table("Wanted targets, and what AWS shows", ["Target group", "Zone", "#Wanted", "#Serving", "#Healthy", "#Initial", "#Unhealthy", "#Draining", "Also"], rows)]
    : [el("p", {}, "Nothing is bound to a target group.")];
  return groups.concat(sets());
}

function sets() {
  if (!state.sets.length) return [];
  const rows = state.sets.map((set) => {
    const turns = [...set.turns].sort((one, other) => one.since.localeCompare(other.since));
    const named = turns.slice(0, SETS_TURNS).map((turn) =>
      `${turn.node} (${turn.waitsFor ? turn.waitsFor + " " : ""}for ${age(turn.since)}${turn.late ? ", late" : ""})`);
    if (turns.length > SETS_TURNS) named.push(`${turns.length - SETS_TURNS} more`);
    return el("tr", {},
      el("th", { scope: "row" }, `${set.namespace}/${set.name}`), number(set.nodes), number(set.updatedNodes), number(set.degradedNodes),
      number(set.wantedPods), number(set.availablePods),
      cell(set.progress ? el("span", { class: "reason" }, set.progress) : "not looked at yet"), el("td", { class: "wide" }, named.join(", ")));
  });
  return [el("h2", {}, "IngressDaemonSets"),
    table("Nodes and pods of IngressDaemonSets", ["IngressDaemonSet", "#Nodes", "#Updated", "#Degraded", "#Pods", "#Available", "Progress", "Nodes in turn"], rows)];
}

function also(group) {
  const notes = [];
  if (group.paused) notes.push(`paused: ${group.paused.registrations} registrations and ${group.paused.removals} removals wait`);
  if (group.held) notes.push(`${group.held} removals held`);
  if (group.foreign) notes.push(`${group.foreign} foreign`);
  if (group.oldestRemoval) notes.push(`a removal waits for ${age(group.oldestRemoval)}`);
  notes.push(group.lastRead ? `read ${age(group.lastRead)} ago` : "not read yet");
  return notes;
}

async function groupView(arn) {
  const group = state.groups.get(arn);
  if (!group) return [el("p", {}, "Headgate knows no such target group.")];
  const targets = await ask("debug/targets?group=" + encodeURIComponent(arn));
  const rows = targets.map((target) => {
    const its = state.journal.filter((entry) => entry.target === target.target && entry.targetGroup === arn && entry.name === target.pod);
    const how = target.goes ? (target.registered ? "to be deregistered" : "deregistered") : (target.registered ? "registered" : "not registered yet");
    return el("tr", {},
      el("th", { scope: "row", class: "mono" }, target.target), cell(podLink(target.namespace, target.pod)),
      cell(how, target.goes ? el("span", { class: "reason" }, ` ${target.goes}`) : ""),
      cell(health(target.health, target.healthReason)), cell(target.gate || ""),
      el("td", { class: "wide" }, life(its, `Life of ${target.target}`) || el("span", { class: "faint" }, "as long as this page knows")));
  });
  const bound = group.boundBy.map((by) => el("li", {}, by));
  return [el("h2", {}, `Target group ${group.name}`), el("p", { class: "mono faint" }, group.arn),
    el("p", {}, also(group).join(", ")), el("ul", {}, bound),
    rows.length ? table(`Targets of ${group.name}`, ["Target", "Pod", "State", "AWS says", "Readiness gate", "Life"], rows) : el("p", {}, "No targets.")];
}

function word(of) {
  return of ? [el("span", { class: "reason" }, of.reason), `: ${of.message}`] : [];
}

function facts(pairs) {
  return el("dl", {}, pairs.filter(([, value]) => value && value.length).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

async function podView(namespace, name) {
  const report = await ask(`debug/explain?namespace=${encodeURIComponent(namespace)}&pod=${encodeURIComponent(name)}`);
  const pod = report.pod;
  const made = [el("h2", {}, `Pod ${namespace}/${name}`),
    el("p", {}, pod ? `${pod.ips.join(", ") || "no IP"}, ${pod.life}, ${pod.ready ? "ready but for the load balancer" : "not ready"}` : "Not known: it is gone, or never was.")];
  if (report.nowhere) made.push(facts([["Target group", ["none: ", ...word(report.nowhere)]]]));
  for (const target of report.targets) {
    const next = target.next;
    made.push(el("h3", {}, `${nameOf(target.targetGroup)} ${target.target || ""}`), facts([
      ["State", [`${target.state}: `, ...word(target)]], ["Since", [clock(target.since)]],
      ["AWS says", target.health ? [health(target.health.state, target.health.reason)] : null],
      ["Next", next ? [`${next.action} ${clock(next.at)} `, ...word(next.waits)] : null],
      ...target.troubles.map((trouble) => ["Beware", word(trouble)]),
    ]));
  }
  if (report.gate) made.push(el("h3", {}, "Readiness gate"), facts([["State", [report.gate.state]], ["Because", word(report.gate.word)]]));
  const past = report.past || { entries: [] };
  made.push(el("h3", {}, "Past"));
  for (const [what, entries] of byTarget(past.entries)) made.push(el("p", { class: "mono" }, what), life(entries, `Life of ${what}`) || "");
  if (!past.entries.length) made.push(el("p", { class: "faint" }, "Nothing is remembered of a pod of this name."));
  made.push(el("ol", { class: "past" }, past.entries.map((entry) => el("li", {}, el("span", { class: "mono faint" }, clock(entry.at) + " "), told(entry)))));
  if (past.leadsSince) made.push(el("p", { class: "faint" }, `This replica leads since ${clock(past.leadsSince)}: what AWS answered and showed before, another one knew.`));
  return made;
}

function journalRows() {
  const filter = state.filter.toLowerCase();
  const fits = (entry) => (!state.kind || entry.kind === state.kind)
    && (!filter || `${entry.namespace || ""}/${entry.name || ""} ${told(entry)}`.toLowerCase().includes(filter));
  return state.journal.filter(fits).slice(-JOURNAL_SHOWN).reverse().map((entry) => el("tr", {},
    el("td", { class: "mono" }, clock(entry.at)), cell(entry.namespace || ""), cell(subject(entry)), el("td", { class: "wide" }, told(entry))));
}

function journalView() {
  const kinds = ["", "Pod", "Service", "TargetBinding", "Node", "TargetGroupGrant", "Headgate"];
  const rows = el("div", { id: "rows" });
  const draw = () => {
    const all = journalRows();
    replace(rows, all.length ? [table("What has become otherwise, the newest first", ["Time", "Namespace", "What", "What became of it"], all)].flat()
      : [el("p", {}, "Nothing that fits.")]);
  };
  const text = el("input", { id: "filter", type: "search", value: state.filter, autocomplete: "off" });
  text.addEventListener("input", () => { state.filter = text.value; draw(); });
  const kind = el("select", { id: "kind" }, kinds.map((of) => el("option", { value: of, selected: of === state.kind }, of || "all")));
  kind.addEventListener("change", () => { state.kind = kind.value; draw(); });
  const form = el("form", { role: "search" }, el("label", { for: "filter" }, "Filter ", text), el("label", { for: "kind" }, "Kind ", kind));
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
  redraw = draw;
  return [el("h2", {}, "Journal"), form, rows];
}

// ---- which view, and when it is drawn

let redraw = () => {};
let drawing = 0;

async function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const view = document.getElementById("view");
  const mine = ++drawing;
  redraw = () => route();
  let made;
  try {
    if (parts[0] === "group") made = await groupView(parts[1]);
    else if (parts[0] === "pod") made = await podView(parts[1], parts[2]);
    else if (parts[0] === "journal") made = journalView();
    else made = overview();
  } catch (error) {
    made = [el("p", {}, `This could not be read: ${error.message}`)];
  }
  if (mine === drawing) replace(view, made);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === "#/journal" ? parts[0] === "journal" : parts[0] !== "journal";
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
}

// What has the focus keeps it, and what is scrolled stays where it is.
function replace(view, made) {
  const kept = view.contains(document.activeElement) ? document.activeElement : null;
  const key = kept && (kept.id ? `#${kept.id}` : `${kept.localName}[${kept.hasAttribute("href") ? "href" : "aria-label"}="${CSS.escape(kept.getAttribute("href") || kept.getAttribute("aria-label") || "")}"]`);
  const scrolled = [...view.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
  view.replaceChildren(...made);
  view.querySelectorAll(".scroll").forEach((region, at) => { region.scrollLeft = scrolled[at] || 0; });
  if (key) view.querySelector(key)?.focus({ preventScroll: true });
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer.json();
}

function drawTop() {
  const made = [];
  const [worst, ...others] = state.problems;
  if (state.elsewhere) {
    made.push(el("p", { class: "bad" }, state.elsewhere));
  } else if (worst) {
    made.push(el("p", { class: "bad" }, el("span", { class: "reason" }, worst.reason), ` ${worst.about}: ${worst.message}`));
    if (others.length) {
      const open = document.querySelector("#top details")?.open;
      made.push(el("details", { open }, el("summary", {}, `${others.length} more`),
        el("ul", {}, others.map((problem) => el("li", {}, el("span", { class: "reason" }, problem.reason), ` ${problem.about}: ${problem.message}`)))));
    }
  } else if (state.live) {
    let wanted = 0, serving = 0;
    for (const group of state.groups.values()) for (const zone of group.zones) { wanted += zone.wanted; serving += zone.serving; }
    made.push(el("p", { class: "good" }, el("span", { class: "reason" }, "OK"),
      ` ${state.groups.size} target group${state.groups.size === 1 ? "" : "s"}, ${serving} of ${wanted} wanted targets healthy`));
  }
  if (state.live && !state.elsewhere && state.leaving.length) {
    const pods = state.leaving.reduce((sum, node) => sum + node.pods, 0);
    const nodes = state.leaving.map((node) => `${node.node} ${node.pods} (${node.reason})`);
    made.push(el("p", {}, `Pods that are targets on nodes that leave: ${pods}: ${nodes.join(", ")}`));
  }
  const section = document.getElementById("top");
  const text = made.map((node) => node.textContent).join("\n");
  // What is read aloud changes only when it is otherwise.
  if (section.dataset.text !== text) { section.dataset.text = text; section.replaceChildren(...made); }
  const link = document.getElementById("link");
  link.textContent = state.live ? "Live" : "Not connected; trying again";
  link.classList.toggle("live", state.live);
  const since = state.leadsSince ? `, leads since ${clock(state.leadsSince)}` : "";
  document.getElementById("replica").textContent = state.answeredBy ? `Answered by ${state.answeredBy}${since}${standbys()}` : "";
}

function standbys() {
  const others = state.replicas.filter((replica) => !replica.leads).map((replica) => replica.pod);
  return others.length ? `; ready to follow: ${others.join(", ")}` : "";
}

// One drawing for all that comes at once, and no more than four a second.
let waiting = null;
function changed() {
  if (waiting) return;
  waiting = setTimeout(() => { waiting = null; drawTop(); if (!busy()) redraw(); }, 250);
}

// Nobody's reading or typing is disturbed.
function busy() {
  return document.getSelection()?.toString() !== "";
}

// ---- what comes in

let source = null;
function connect() {
  if (source) return;
  source = new EventSource("debug/live");
  source.addEventListener("open", () => { state.live = true; changed(); });
  source.addEventListener("error", () => { state.live = false; changed(); });
  source.addEventListener("elsewhere", (event) => { state.elsewhere = JSON.parse(event.data).message; changed(); });
  source.addEventListener("status", (event) => {
    const status = JSON.parse(event.data);
    if (status.whole) state.groups.clear();
    for (const group of status.targetGroups) state.groups.set(group.arn, group);
    for (const arn of status.gone) state.groups.delete(arn);
    Object.assign(state, { elsewhere: null, live: true, problems: status.problems, leaving: status.leavingNodes, sets: status.ingressDaemonSets, answeredBy: status.answeredBy });
    changed();
  });
  source.addEventListener("journal", (event) => {
    const past = JSON.parse(event.data);
    state.journal = (past.whole ? [] : state.journal).concat(past.entries).slice(-JOURNAL_KEPT);
    state.leadsSince = past.leadsSince;
    changed();
  });
}

function disconnect() {
  if (source) source.close();
  source = null;
  state.live = false;
}

async function readReplicas() {
  try {
    state.replicas = await ask("debug/replicas");
    changed();
  } catch {
    state.replicas = [];
  }
}

// A page that nobody looks at asks for nothing.
document.addEventListener("visibilitychange", () => { if (document.hidden) disconnect(); else connect(); drawTop(); });
window.addEventListener("hashchange", () => { route(); document.getElementById("main").focus(); });
connect();
drawTop();
route();
readReplicas();
setInterval(() => { if (!document.hidden) readReplicas(); }, 15000);
// Ages go on while nothing happens.
setInterval(() => { if (!document.hidden && !location.hash.includes("journal")) changed(); }, 5000);
