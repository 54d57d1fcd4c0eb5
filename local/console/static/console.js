"use strict";
/* Refreshes live pages in place, shows the age of a page, and adds keyboard shortcuts.
   All links and forms work without this script, too. */
(() => {
  const STALE_S = 60;
  const byId = (id) => document.getElementById(id);
  const every = Number(document.body.dataset.live || 0);
  let held = false, fault = "", asking = false;

  /* Refresh in place: unchanged nodes are kept, so that focus, scroll position and open parts stay.
     Forms, nodes that refresh themselves (hx-get), and nodes marked data-keep do not change. */
  const isSame = (one, other) =>
    one.nodeName === other.nodeName && ["id", "action"].every((name) => attribute(one, name) === attribute(other, name));
  const attribute = (node, name) => (node.nodeType === Node.ELEMENT_NODE && node.getAttribute(name)) || "";
  const isKept = (node) => node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-keep");

  function become(node, wanted) {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.data !== wanted.data) node.data = wanted.data;
      return;
    }
    if (node.matches("form, [hx-get]:not(a)") || node.isEqualNode(wanted)) return;
    for (const { name } of [...node.attributes])
      if (!wanted.hasAttribute(name) && name !== "open") node.removeAttribute(name);
    for (const { name, value } of wanted.attributes)
      if (node.getAttribute(name) !== value && name !== "open") node.setAttribute(name, value);
    children(node, wanted);
  }

  function children(parent, wanted) {
    const named = new Map([...parent.children].filter((each) => each.id).map((each) => [each.id, each]));
    let at = parent.firstChild;
    for (const next of [...wanted.childNodes]) {
      while (at && isKept(at)) at = at.nextSibling;
      const found = (next.id && named.get(next.id)) || (at && isSame(at, next) ? at : null);
      if (found && found.nodeName === next.nodeName) {
        if (found === at) at = at.nextSibling;
        else parent.insertBefore(found, at);
        become(found, next);
      } else {
        const made = document.importNode(next, true);
        parent.insertBefore(made, at);
        if (window.htmx && made.nodeType === Node.ELEMENT_NODE) window.htmx.process(made);
      }
    }
    while (at) {
      const behind = at.nextSibling;
      if (!isKept(at)) at.remove();
      at = behind;
    }
  }

  function show(text) {
    const wanted = new DOMParser().parseFromString(text, "text/html");
    const main = wanted.getElementById("main"), focused = document.activeElement;
    if (!main) throw new Error("unexpected response");
    become(byId("main"), main);
    become(byId("read-at"), wanted.getElementById("read-at"));
    document.title = wanted.title;
    showTimes();
    document.body.dataset.live = wanted.body.dataset.live || "0";
    if (focused && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  const isResting = () => held || document.hidden || window.getSelection().type === "Range";  // Of text to copy.

  /* Parts that refresh themselves (hx-get) rest like the page, and then go on at once. */
  const resting = new Set();
  function rest(event) {
    const { elt, triggeringEvent } = event.detail.requestConfig;
    if (triggeringEvent || !isResting()) return;
    event.preventDefault();
    resting.add(elt);
  }

  function goOn() {
    if (isResting()) return;
    const parts = [...resting].filter((each) => each.isConnected);
    resting.clear();
    for (const each of parts) window.htmx.trigger(each, "resume");
  }

  async function look() {
    if (asking || isResting() || !Number(document.body.dataset.live)) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { redirect: "error", headers: { "X-Refresh": "yes" } });
      if (!answer.ok) throw new Error(answer.status === 404 ? "the page no longer exists" : `status ${answer.status}`);
      show(await answer.text());
      fault = "";
    } catch (error) {
      fault = error.message || "no response";
    } finally {
      asking = false;
      tell();
    }
  }

  /* A page says how soon to refresh it, and may change that: every second only while something is in progress. */
  function lookLater() {
    setTimeout(() => look().finally(lookLater), (Number(document.body.dataset.live) || every) * 1000);
  }

  /* Show the age of the page. */
  function words(seconds) {
    if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
    return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
  }

  function tell() {
    const age = (Date.now() - Date.parse(byId("read-at").getAttribute("datetime"))) / 1000;
    const again = Number(document.body.dataset.live) ? (held ? ", held" : `, refreshes every ${document.body.dataset.live} s`) : "";
    byId("age-words").textContent = ` · ${words(age)} ago${again}${fault ? `; refresh failed: ${fault}` : ""}`;
    byId("age").classList.toggle("old", Boolean(fault) || age > STALE_S);
  }

  /* Pages print how far away an instant is; exact times can replace the distances. */
  const EXACT = "tagcast-exact-times";
  function showTimes() {
    const exact = Boolean(localStorage.getItem(EXACT));
    byId("times").setAttribute("aria-pressed", String(exact));
    for (const each of document.querySelectorAll("time[title]"))
      if (each.hasAttribute("data-exact") !== exact) {
        [each.textContent, each.title] = [each.title, each.textContent];
        each.toggleAttribute("data-exact", exact);
      }
  }

  function switchTimes() {
    if (localStorage.getItem(EXACT)) localStorage.removeItem(EXACT);
    else localStorage.setItem(EXACT, "yes");
    showTimes();
  }

  /* Announce what a user's action changed in a part of the page: only the elements marked data-say. */
  function say({ detail: { elt } }) {
    const elements = [elt, ...elt.querySelectorAll("[data-say]")].filter((each) => each.matches("[data-say]"));
    if (elements.length) byId("say").textContent = elements.map((each) => each.textContent.trim()).join(". ");
  }

  /* An old result must not look like the result of a failed request. */
  function fail({ detail: { elt, target, xhr } }) {
    if (!elt.matches("form, a")) return;
    const answer = new DOMParser().parseFromString(xhr.responseText, "text/html");
    const words = [...answer.querySelectorAll("main h1, main h1 + p")].map((each) => each.textContent.trim()).join(". ");
    const shown = Object.assign(document.createElement("p"), { className: "fault", textContent: words || answer.body.textContent || "No response from the console." });
    shown.setAttribute("role", "alert");
    target.replaceChildren(shown);
  }

  /* Shortcuts: g and the letter of a page, / to find a message, t for exact times, ? to list them. Users can turn them off. */
  const OFF = "tagcast-keys-off";
  let going = false;
  function isTyping(target) {
    return target.closest && target.closest("input, select, textarea, [contenteditable]");
  }
  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || localStorage.getItem(OFF)) return;
    const place = going && document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    going = event.key === "g";
    if (place) place.click();
    else if (event.key === "/") byId("find").focus();
    else if (event.key === "t") switchTimes();
    else if (event.key === "?") byId("keys").showModal();
    else return;
    event.preventDefault();
  }

  addEventListener("DOMContentLoaded", () => {
    const address = new URL(location.href);
    if (address.searchParams.has("done")) {
      for (const name of ["done", "at"]) address.searchParams.delete(name);
      history.replaceState(null, "", address);
    }
    tell();
    setInterval(tell, 1000);
    const hold = byId("hold"), off = byId("keys-off");
    if (every) {
      hold.hidden = false;
      hold.addEventListener("click", () => {
        held = !held;
        hold.setAttribute("aria-pressed", String(held));
        tell();
        goOn();
        look();
      });
      lookLater();
      addEventListener("visibilitychange", look);
    }
    byId("times").hidden = byId("keys-show").hidden = false;
    byId("times").addEventListener("click", switchTimes);
    showTimes();
    byId("keys-show").addEventListener("click", () => byId("keys").showModal());
    off.checked = Boolean(localStorage.getItem(OFF));
    off.addEventListener("change", () => (off.checked ? localStorage.setItem(OFF, "yes") : localStorage.removeItem(OFF)));
    addEventListener("keydown", pressed);
    addEventListener("htmx:afterSettle", say);
    addEventListener("htmx:afterSettle", showTimes);
    for (const name of ["htmx:responseError", "htmx:sendError"]) addEventListener(name, fail);
    for (const name of ["htmx:beforeRequest", "htmx:beforeSwap"]) addEventListener(name, rest);
    for (const name of ["visibilitychange", "selectionchange"]) document.addEventListener(name, goOn);
  });
})();
