import "./style.css";

import { mount } from "svelte";

import App from "./components/App.svelte";

const target = document.getElementById("app") as HTMLElement;
// What stands there for whoever gets a page without its end.
target.replaceChildren();
mount(App, { target });
