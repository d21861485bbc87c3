// Headgate's page: follows /debug/live, and asks for an object when somebody opens it. It changes nothing.
"use strict";

const COLUMNS = ["healthy", "initial", "unhealthy", "draining"];
const JOURNAL_KEPT = 2000;
const JOURNAL_SHOWN = 300;
const SETS_TURNS = 5;
// Screen readers read a change aloud: at most one in this many milliseconds.
const QUIET = 10500;

const state = {
  live: false, known: false, paused: false, elsewhere: null, answeredBy: null, leadsSince: null, problems: [], leaving: [], sets: [], groups: new Map(),
  replicas: [], journal: [], filters: {}, onlyProblems: false, kind: "",
};

// ---- building elements: all data becomes text, never markup

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
// The key of a link tells it from others with the same address, so that it keeps the focus when it is drawn again.
const groupLink = (arn, key) => el("a", { href: "#/group/" + encodeURIComponent(arn), "data-key": key }, nameOf(arn));
const podLink = (namespace, name, key) =>
  el("a", { href: `#/pod/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, "data-key": key }, name);
const list = (parts) => parts.flatMap((part, at) => (at ? [", ", part] : [part])).flat();

function stateClass(word) {
  if (!word) return "";
  if (word.startsWith("unhealthy")) return "unhealthy";
  return COLUMNS.includes(word) ? word : "other";
}

function health(word, because) {
  if (!word) return el("span", { class: "faint" }, "absent");
  return el("span", { class: "state " + stateClass(word) }, word + (because ? ` (${because})` : ""));
}

function clock(time) {
  return time ? new Date(time).toISOString().slice(11, 23) + "Z" : "";
}

function span(time) {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(time)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  return seconds < 7200 ? `${Math.floor(seconds / 60)}m` : `${Math.floor(seconds / 3600)}h`;
}

// An age that counts on without being drawn again.
const age = (time) => el("time", { datetime: time }, span(time));

const nameOf = (arn) => (arn || "").split("/")[1] || arn;

function subject(entry) {
  if (entry.kind === "Pod") return podLink(entry.namespace, entry.name, entry.number);
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

// ---- the views: each is a heading, which is also the title of the page, and what is below it

const chosen = (text) => text.toLowerCase().includes((state.filters[viewOf()] || "").toLowerCase());
const hasProblem = (arn) => state.problems.some((problem) => problem.targetGroups?.includes(arn));
const nothing = (all) => el("p", {}, all ? "Nothing matches the filter." : "Nothing is bound to a target group.");

function overview() {
  const rows = [];
  for (const group of [...state.groups.values()].sort((one, other) => one.name.localeCompare(other.name))) {
    if (!chosen([group.arn, ...group.boundBy].join(" ")) || (state.onlyProblems && !hasProblem(group.arn))) continue;
    const zones = group.zones.length ? group.zones : [{ zone: "-", wanted: 0, serving: 0, states: {} }];
    zones.forEach((zone, at) => {
      const others = Object.entries(zone.states).filter(([word]) => !COLUMNS.includes(word)).map(([word, count]) => `${count} ${word}`);
      const notes = at === 0 ? others.concat(also(group)) : others;
      rows.push(el("tr", {},
        at === 0 ? el("th", { scope: "row", rowspan: zones.length }, groupLink(group.arn)) : null,
        cell(zone.zone || "-"), number(zone.wanted), number(zone.serving),
        ...COLUMNS.map((word) => number(zone.states[word] || 0)), el("td", { class: "wide" }, list(notes))));
    });
  }
  const groups = rows.length
    ? table("Wanted targets, and what AWS shows", ["Target group", "Zone", "#Wanted", "#Serving", "#Healthy", "#Initial", "#Unhealthy", "#Draining", "Also"], rows)
    : nothing(state.groups.size);
  return { heading: "Target groups by zone", made: [groups, ...sets()] };
}

function sets() {
  const about = (set) => `${set.namespace}/${set.name}`;
  const isBad = (set) => state.problems.some((problem) => problem.about === `IngressDaemonSet ${about(set)}`);
  const shown = state.sets.filter((set) => chosen(about(set)) && (!state.onlyProblems || isBad(set)));
  if (!shown.length) return [];
  const rows = shown.map((set) => {
    const turns = [...set.turns].sort((one, other) => one.since.localeCompare(other.since));
    const named = turns.slice(0, SETS_TURNS).map((turn) =>
      [`${turn.node} (${turn.waitsFor ? turn.waitsFor + " " : ""}for `, age(turn.since), turn.late ? ", late)" : ")"]);
    if (turns.length > SETS_TURNS) named.push([`${turns.length - SETS_TURNS} more`]);
    return el("tr", {},
      el("th", { scope: "row" }, about(set)), number(set.nodes), number(set.updatedNodes), number(set.degradedNodes),
      number(set.wantedPods), number(set.availablePods),
      cell(set.progress ? el("span", { class: "reason" }, set.progress) : "no status yet"), el("td", { class: "wide" }, list(named)));
  });
  return [el("h2", {}, "IngressDaemonSets"),
    table("Nodes and pods of IngressDaemonSets", ["IngressDaemonSet", "#Nodes", "#Updated", "#Degraded", "#Pods", "#Available", "Progress", "Current nodes"], rows)];
}

function also(group) {
  const notes = [];
  if (group.paused) notes.push(`paused: ${group.paused.registrations} registrations and ${group.paused.removals} deregistrations wait`);
  if (group.held) notes.push(`${group.held} removals held`);
  if (group.foreign) notes.push(`${group.foreign} foreign`);
  if (group.oldestRemoval) notes.push(["a removal has waited for ", age(group.oldestRemoval)]);
  notes.push(group.lastRead ? ["read ", age(group.lastRead), " ago"] : "not read yet");
  return notes;
}

async function groupView(arn) {
  const heading = `Target group ${nameOf(arn)}`;
  const group = state.groups.get(arn);
  if (!group) return { heading, made: [el("p", {}, "Headgate does not know this target group.")] };
  const targets = await ask("debug/targets?group=" + encodeURIComponent(arn));
  const isFine = (target) => target.goes || ["healthy", "initial", "draining"].includes(target.health);
  const shown = targets.filter((target) => chosen(`${target.target} ${target.namespace}/${target.pod} ${target.health || "absent"}`)
    && !(state.onlyProblems && isFine(target)));
  const rows = shown.map((target) => {
    const its = state.journal.filter((entry) => entry.target === target.target && entry.targetGroup === arn && entry.name === target.pod);
    const how = target.goes ? (target.registered ? "should be deregistered" : "deregistered") : (target.registered ? "registered" : "not registered yet");
    return el("tr", {},
      el("th", { scope: "row", class: "mono" }, target.target), cell(podLink(target.namespace, target.pod, target.target)),
      cell(how, target.goes ? el("span", { class: "reason" }, ` ${target.goes}`) : ""),
      cell(health(target.health, target.healthReason)), cell(target.gate || ""),
      el("td", { class: "wide" }, life(its, `History of ${target.target}`) || el("span", { class: "faint" }, "No changes since this page was opened")));
  });
  const problems = state.problems.filter((problem) => problem.targetGroups?.includes(arn)).map((problem) => el("li", {}, problemLine(problem, "")));
  return { heading, made: [el("p", { class: "mono faint" }, group.arn),
    el("p", {}, list(also(group))), el("ul", {}, group.boundBy.map((by) => el("li", {}, by)), problems),
    rows.length ? table(`Targets of ${group.name}`, ["Target", "Pod", "State", "AWS health", "Readiness gate", "History"], rows)
      : el("p", {}, targets.length ? "Nothing matches the filter." : "No targets.")] };
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
  const made = [el("p", {}, pod ? `${pod.ips.join(", ") || "no IP"}, ${pod.life}, ${pod.ready ? "ready apart from Headgate's gate" : "not ready"}`
    : "Headgate does not know this pod: it was deleted, or it never existed.")];
  if (report.nowhere) made.push(facts([["Target group", ["none: ", ...word(report.nowhere)]]]));
  for (const target of report.targets) {
    const next = target.next;
    made.push(el("h3", {}, groupLink(target.targetGroup), ` ${target.target || ""}`), facts([
      ["State", [`${target.state}: `, ...word(target)]], ["Since", [clock(target.since)]],
      ["AWS health", target.health ? [health(target.health.state, target.health.reason)] : null],
      ["Next", next ? [`${next.action} ${clock(next.at)} `, ...word(next.waits)] : null],
      ...target.troubles.map((trouble) => ["Problem", word(trouble)]),
    ]));
  }
  if (report.gate) made.push(el("h3", {}, "Readiness gate"), facts([["State", [report.gate.state]], ["Reason", word(report.gate.word)]]));
  const past = report.past || { entries: [] };
  made.push(el("h3", {}, "History"));
  for (const [what, entries] of byTarget(past.entries)) made.push(el("p", { class: "mono" }, what), life(entries, `History of ${what}`) || "");
  if (!past.entries.length) made.push(el("p", { class: "faint" }, "Nothing is known of a pod of this name."));
  made.push(el("ol", { class: "past" }, past.entries.map((entry) => el("li", {}, el("span", { class: "mono faint" }, clock(entry.at) + " "), entry.text))));
  if (past.gap) made.push(el("p", { class: "faint" }, past.gap));
  return { heading: `Pod ${namespace}/${name}`, made };
}

function journalView() {
  const fits = (entry) => (!state.kind || entry.kind === state.kind) && (!state.onlyProblems || entry.problem)
    && chosen(`${entry.namespace || ""}/${entry.name || ""} ${entry.text}`);
  const rows = state.journal.filter(fits).slice(-JOURNAL_SHOWN).reverse().map((entry) => el("tr", {},
    el("td", { class: "mono" }, clock(entry.at)), cell(entry.namespace || ""), cell(subject(entry)), el("td", { class: "wide" }, entry.text)));
  return { heading: "Journal", made: [rows.length ? table("Recent changes, newest first", ["Time", "Namespace", "Object", "Change"], rows)
    : el("p", {}, "Nothing matches the filter.")] };
}

// ---- which view, and when it is drawn

let drawing = 0;
const place = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
const viewOf = () => (["group", "pod", "journal"].includes(place()[0]) ? place()[0] : "groups");

async function route() {
  const [, ...of] = place();
  const name = viewOf();
  const mine = ++drawing;
  let view;
  try {
    view = await { groups: overview, group: () => groupView(of[0]), pod: () => podView(of[0], of[1]), journal: journalView }[name]();
  } catch (error) {
    view = { heading: "Error", made: [el("p", {}, `This could not be read: ${error.message}`)] };
  }
  if (mine !== drawing) return;
  document.title = `${view.heading} – Headgate`;
  replace(document.getElementById("view"), [el("h2", {}, view.heading), ...view.made]);
  document.getElementById("choice").hidden = name === "pod";
  document.getElementById("kinds").hidden = name !== "journal";
  for (const link of document.querySelectorAll("nav a")) {
    const here = (link.getAttribute("href") === "#/journal") === (name === "journal");
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
}

// The element that has the focus keeps it, and scrolled tables stay where they are.
function replace(section, made) {
  const kept = section.contains(document.activeElement) ? document.activeElement : null;
  const name = kept && ["id", "data-key", "href", "aria-label"].find((name) => kept.hasAttribute(name));
  const scrolled = [...section.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
  section.replaceChildren(...made);
  section.querySelectorAll(".scroll").forEach((region, at) => { region.scrollLeft = scrolled[at] || 0; });
  if (!kept) return;
  const again = name && section.querySelector(`${kept.localName}[${name}="${CSS.escape(kept.getAttribute(name))}"]`);
  (again || document.getElementById("main")).focus({ preventScroll: true });
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer.json();
}

// A problem, with links to its target groups. `key` begins the keys of the links.
function problemLine(problem, key) {
  const arns = problem.targetGroups || [];
  const links = arns.map((arn) => groupLink(arn, `${key} ${problem.reason} ${problem.about} ${arn}`));
  const isGroup = arns.length === 1 && problem.about === `target group ${nameOf(arns[0])}`;
  const about = isGroup ? ["target group ", ...links] : [problem.about, ...(links.length ? [" (", ...list(links), ")"] : [])];
  return [el("span", { class: "reason" }, problem.reason), " ", ...about, ...(problem.since ? [" for ", age(problem.since)] : []), `: ${problem.message}`];
}

function drawTop() {
  const made = [];
  const [worst, ...others] = state.problems;
  if (state.elsewhere) {
    made.push(el("p", { class: "bad" }, state.elsewhere));
  } else if (worst) {
    made.push(el("p", { class: "bad" }, problemLine(worst, "top")));
    if (others.length) {
      const open = document.querySelector("#top details")?.open;
      made.push(el("details", { open }, el("summary", { id: "more" }, `${others.length} more`),
        el("ul", {}, others.map((problem) => el("li", {}, problemLine(problem, "top"))))));
    }
  } else if (state.known && (state.live || state.paused)) {
    let wanted = 0, serving = 0;
    for (const group of state.groups.values()) for (const zone of group.zones) { wanted += zone.wanted; serving += zone.serving; }
    made.push(el("p", { class: "good" }, el("span", { class: "reason" }, "OK"),
      ` ${state.groups.size} target group${state.groups.size === 1 ? "" : "s"}, ${serving} of ${wanted} wanted targets healthy`));
  }
  if (!state.elsewhere && state.leaving.length) {
    const pods = state.leaving.reduce((sum, node) => sum + node.pods, 0);
    const nodes = state.leaving.map((node) => `${node.node} ${node.pods} (${node.reason})`);
    made.push(el("p", {}, `Targets on nodes that will be removed: ${pods}: ${nodes.join(", ")}`));
  }
  replace(document.getElementById("top"), made);
  const link = document.getElementById("link");
  link.textContent = state.paused ? "Paused" : state.live ? "Live" : "Not connected, retrying";
  link.classList.toggle("live", state.live);
  const since = state.leadsSince ? `, leader since ${clock(state.leadsSince)}` : "";
  document.getElementById("replica").textContent = state.answeredBy ? `Answered by ${state.answeredBy}${since}${standbys()}` : "";
}

function standbys() {
  const others = state.replicas.filter((replica) => !replica.leads).map((replica) => replica.pod);
  return others.length ? `; standby: ${others.join(", ")}` : "";
}

// ---- what is read aloud: the only live region of the page

function summary() {
  if (!state.live || !(state.known || state.elsewhere)) return "Not connected to Headgate.";
  if (state.elsewhere) return state.elsewhere;
  const [worst, ...others] = state.problems;
  if (!worst) return "No problems.";
  return `${worst.reason}, ${worst.about}${others.length ? `, and ${others.length} more` : ""}.`;
}

let announced = -QUIET, announcing = null;
function announce() {
  if (announcing || state.paused || document.hidden) return;
  announcing = setTimeout(() => {
    announcing = null;
    const region = document.getElementById("announcement");
    if (state.paused || document.hidden || region.textContent === summary()) return;
    announced = performance.now();
    region.textContent = summary();
  }, Math.max(1000, announced + QUIET - performance.now()));
}

// Draws once for all changes that arrive together, at most four times a second, and never while somebody selects text.
let waiting = null;
function changed() {
  announce();
  if (waiting) return;
  waiting = setTimeout(() => { waiting = null; drawTop(); if (!isSelecting()) route(); }, 250);
}

const isSelecting = () => document.getSelection()?.toString() !== "";

// ---- data from the server

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
    Object.assign(state, { elsewhere: null, live: true, known: true, problems: status.problems, leaving: status.leavingNodes, sets: status.ingressDaemonSets, answeredBy: status.answeredBy });
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

// A page that is paused or in the background sends no requests.
function follow() {
  if (document.hidden || state.paused) disconnect(); else connect();
  drawTop();
}

// ---- what people do

document.getElementById("pause").addEventListener("click", (event) => {
  state.paused = !state.paused;
  event.currentTarget.setAttribute("aria-pressed", String(state.paused));
  follow();
});
const choose = (id, take) => document.getElementById(id).addEventListener("input", (event) => { take(event.currentTarget); route(); });
choose("filter", (box) => { state.filters[viewOf()] = box.value; });
choose("problems", (box) => { state.onlyProblems = box.checked; });
choose("kind", (box) => { state.kind = box.value; });
document.getElementById("choice").addEventListener("submit", (event) => event.preventDefault());
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); document.getElementById("main").focus(); });
document.addEventListener("visibilitychange", follow);
window.addEventListener("hashchange", () => {
  document.getElementById("filter").value = state.filters[viewOf()] || "";
  route();
  document.getElementById("main").focus();
});

follow();
route();
readReplicas();
setInterval(() => { if (!document.hidden && !state.paused) readReplicas(); }, 15000);
setInterval(() => {
  if (document.hidden || state.paused || isSelecting()) return;
  for (const age of document.querySelectorAll("time")) age.textContent = span(age.dateTime);
}, 1000);
