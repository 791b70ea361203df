const PERIOD = 500; // ms between looks
const start = document.getElementById("start");
const state = document.getElementById("state");
const replay = document.getElementById("replay");

async function show(options) {
  const answer = await fetch(options ? "/replay" : "/replay/state", options);
  if (!answer.ok) throw new Error(await answer.text());
  // The server has escaped everything that is not markup of its own templates.
  replay.innerHTML = await answer.text();
  return answer.headers.get("Replay-Status");
}

async function follow(options) {
  start.disabled = true;
  state.textContent = "Replaying…";
  try {
    let status = await show(options);
    while (status === "running") {
      await new Promise((resolve) => { setTimeout(resolve, PERIOD); });
      status = await show();
    }
    state.textContent = status === "done" ? "Done." : "";
  } catch {
    state.textContent = "The console does not answer. Is `pratique console` still running?";
  }
  start.disabled = false;
}

start.addEventListener("click", () => follow({ method: "POST" }));
if (replay.dataset.status === "running") follow();
