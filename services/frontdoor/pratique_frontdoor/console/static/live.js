const PERIOD = 1000; // ms between looks
const live = document.getElementById("live");
const pause = document.getElementById("pause");
const state = document.getElementById("state");
let isPressed = false; // a link that is replaced under a pressed button would not be followed
const isPaused = () => pause.getAttribute("aria-pressed") === "true";

// Links and scrolled tables keep the focus and their place across updates, by their address or their name.
function placeOf(element) {
  if (!live.contains(element)) return null;
  const name = element.getAttribute("href") ? "href" : "aria-label";
  return element.getAttribute(name) ? `[${name}=${JSON.stringify(element.getAttribute(name))}]` : null;
}

function replace(html) {
  const place = placeOf(document.activeElement);
  const scrolled = [...live.querySelectorAll(".table")].map((table) => [table.scrollTop, table.scrollLeft]);
  // The server has escaped everything that is not markup of its own templates.
  live.innerHTML = html;
  [...live.querySelectorAll(".table")].forEach((table, at) => {
    [table.scrollTop, table.scrollLeft] = scrolled[at] ?? [0, 0];
  });
  if (place) live.querySelector(place)?.focus({ preventScroll: true });
}

async function update() {
  if (document.hidden || isPaused()) return;
  try {
    const answer = await fetch(live.dataset.source);
    const text = await answer.text();
    if (isPaused() || isPressed) return;
    if (answer.ok) replace(text);
    state.textContent = answer.ok ? "" : "The front door refuses to tell: load the page again.";
  } catch {
    state.textContent = "The front door does not answer.";
  }
}

async function keepUpdating() {
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, PERIOD); });
    await update();
  }
}

addEventListener("pointerdown", (event) => { isPressed = event.button === 0; });
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { isPressed = false; });

pause.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(!isPaused()));
  state.textContent = isPaused() ? "Paused." : "";
});
keepUpdating();
