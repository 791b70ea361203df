const EDITORS = ["manifest", "policies", "cluster"];
const DELAY = 300; // ms without a key before the case is decided
const find = (id) => document.getElementById(id);
const caseNow = () => Object.fromEntries(EDITORS.map((id) => [id, find(id).value]));
const webhooks = find("webhooks"); // null where the console calls none

let marks = [];
let newest = 0;
let timer;

function drawMarks(id) {
  const list = find(`${id}-marks`);
  list.replaceChildren();
  for (const mark of marks.filter((one) => one.editor === id)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${mark.level === "error" ? "✕" : "!"} Line ${mark.line}: ${mark.text}`;
    button.addEventListener("click", () => find(id).goTo(mark.line));
    const item = document.createElement("li");
    item.className = mark.level;
    item.append(button);
    list.append(item);
  }
  find(id).marks = marks.filter((one) => one.editor === id);
}

async function post(path) {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(webhooks?.checked ? { ...caseNow(), callWebhooks: true } : caseNow()),
  });
}

async function decide() {
  clearTimeout(timer); // what was typed is in this decision
  const number = (newest += 1);
  const state = find("state");
  if (!find("manifest").value.trim()) {
    marks = [];
    EDITORS.forEach(drawMarks);
    find("result").replaceChildren();
    state.textContent = "Type a manifest, or choose an example.";
    return;
  }
  state.textContent = "Deciding…";
  try {
    const answer = await post("/playground/decide");
    if (number !== newest) return;
    if (!answer.ok) {
      state.textContent = await answer.text();
      return;
    }
    const result = await answer.json();
    if (number !== newest) return;
    marks = result.marks;
    EDITORS.forEach(drawMarks);
    const open = [...document.querySelectorAll("details.part")].map((part) => part.open);
    // The server has escaped everything that is not markup of its own templates.
    find("result").innerHTML = result.html;
    document.querySelectorAll("details.part").forEach((part, at) => { part.open = open[at] ?? true; });
    state.textContent = [...document.querySelectorAll("article h2")]
      .map((head) => head.firstElementChild.textContent.slice(2)).join(", ") || "Not decided.";
  } catch {
    state.textContent = "The console does not answer. Is `pratique console` still running?";
  }
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(decide, DELAY);
}

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

async function packed(value) {
  const bytes = await through(
    new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(value)));
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
  const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await through(new DecompressionStream("deflate-raw"), Uint8Array.from(raw, (one) => one.charCodeAt(0)));
  return JSON.parse(new TextDecoder().decode(bytes));
}

function fill(value) {
  if (webhooks) webhooks.checked = false; // a case from elsewhere names webhooks of its own
  for (const id of EDITORS) {
    find(id).value = typeof value[id] === "string" ? value[id] : "";
  }
  decide();
}

async function openLink() {
  if (!location.hash.startsWith("#case=")) return;
  try {
    fill(await unpacked(location.hash.slice("#case=".length)));
  } catch {
    find("state").textContent = "This link holds no readable case.";
  }
}

async function copyLink() {
  history.replaceState(null, "", `#case=${await packed(caseNow())}`);
  try {
    await navigator.clipboard.writeText(location.href);
    find("state").textContent = "The link is copied. The case is in it, and reaches no server.";
  } catch {
    find("state").textContent = "The link is in the address bar. The case is in it, and reaches no server.";
  }
}

async function save() {
  const answer = await post("/playground/save");
  if (!answer.ok) {
    find("state").textContent = await answer.text();
    return;
  }
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(await answer.blob());
  anchor.download = "case.zip";
  anchor.click();
  URL.revokeObjectURL(anchor.href);
  find("state").textContent = "Saved as case.zip: unpack it, and run `pratique test case/`.";
}

for (const id of EDITORS) {
  find(id).addEventListener("input", soon);
}
find("example").addEventListener("change", async (event) => {
  if (event.target.value) fill(await (await fetch(`/playground/examples/${event.target.value}`)).json());
});
webhooks?.addEventListener("change", decide);
find("link").addEventListener("click", copyLink);
find("save").addEventListener("click", save);
addEventListener("hashchange", openLink);
openLink();
