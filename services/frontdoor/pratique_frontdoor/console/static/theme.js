// Before the page is drawn, so that it does not flash in the other theme.
const chosen = localStorage.getItem("theme");
const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = dark ? "dark" : "light";
