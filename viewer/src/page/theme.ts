/** How the page looks; `system` is as the system does, also when that changes. */
export type Theme = "system" | "light" | "dark";

const isDark = matchMedia("(prefers-color-scheme: dark)");
let chosen: Theme = "system";

function show(): void {
  document.documentElement.dataset["theme"] = chosen === "system" ? (isDark.matches ? "dark" : "light") : chosen;
}

isDark.addEventListener("change", show);

export function showTheme(theme: Theme): void {
  chosen = theme;
  show();
}
