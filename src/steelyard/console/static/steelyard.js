// The console's one script: live regions, live logs, small niceties. Every page says the same without it.
"use strict";

(() => {
  const state = document.querySelector("[data-live-state]");
  const say = (on) => {
    if (!state) return;
    state.textContent = on ? state.dataset.on : state.dataset.off;
    state.hidden = false;
  };

  // --- regions that may change: the page is fetched anew and its regions are put in -----------------
  const regions = () => [...document.querySelectorAll("[data-live][id]")];
  const kinds = () => new Set(regions().flatMap((region) => region.dataset.live.split(" ")));
  let timer = 0, busy = false, again = false, wait = 800;

  const isInUse = (region) => {
    const active = document.activeElement;
    return active && region.contains(active) && active.matches("input, select, textarea, summary");
  };
  const keepOpen = (old, fresh) => {
    for (const open of old.querySelectorAll("details[open][id]")) {
      const same = fresh.querySelector(`#${CSS.escape(open.id)}`);
      if (same) same.open = true;
    }
  };
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const region of regions()) {
        const fresh = page.getElementById(region.id);
        if (!fresh || isInUse(region) || fresh.innerHTML === region.innerHTML) continue;
        keepOpen(region, fresh);
        region.replaceWith(document.adoptNode(fresh));
      }
      const log = page.getElementById("log"), below = document.getElementById("document");
      if (log && below && !document.getElementById("log")) {  // it has begun since the page was made
        below.closest("section").before(document.adoptNode(log));
        log.querySelectorAll("pre[data-log]").forEach(followLog);
      }
    } catch {
      say(false);
    } finally {
      busy = false;
      wait = Math.max(800, 10 * (performance.now() - began));  // a slow server is not asked the more
      if (again) { again = false; soon(); }
    }
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(refresh, wait); };

  let changes = null, heard = false;
  const listen = () => {
    if (changes || !regions().length || document.hidden) return;
    const wanted = kinds();
    changes = new EventSource("/v1/events/stream");
    changes.addEventListener("hello", () => {
      say(true);
      if (!heard && document.querySelector("[data-live-id]")) soon();  // what changed before it listened
      heard = true;
    });
    changes.addEventListener("change", (event) => {
      const { kind, id } = JSON.parse(event.data);
      if (!wanted.has("*") && !wanted.has(kind)) return;
      const only = document.querySelector("[data-live-id]");
      if (only && only.dataset.liveId !== id) return;
      soon();
    });
    for (const name of ["end", "dropped"]) changes.addEventListener(name, () => { hush(); setTimeout(listen, 2000); });
    changes.onerror = () => say(false);
  };
  const hush = () => { if (changes) changes.close(); changes = null; };
  // A browser opens few connections to a host: a page that nobody looks at gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { hush(); return; }
    listen();
    if (regions().length) soon();
  });
  listen();

  // --- a log that is followed -------------------------------------------------------------------------
  const followLog = (log) => {
    const decoder = new TextDecoder();
    const source = new EventSource(log.dataset.log);
    const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.scrollTop = log.scrollHeight;
    source.addEventListener("log", (event) => {
      const bytes = Uint8Array.from(atob(event.data), (letter) => letter.charCodeAt(0));
      const follow = atEnd();
      log.append(decoder.decode(bytes, { stream: true }));
      while (log.childNodes.length > 2000) log.firstChild.remove();
      if (follow) log.scrollTop = log.scrollHeight;
    });
    for (const name of ["end", "error"]) source.addEventListener(name, () => source.close());
    window.addEventListener("pagehide", () => source.close());
  };
  document.querySelectorAll("pre[data-log]").forEach(followLog);

  // The browser's own zone can be chosen, too.
  for (const list of document.querySelectorAll("select[data-zone]")) {
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (own && ![...list.options].some((option) => option.value === own)) list.add(new Option(own, own));
  }

  // On a narrow screen the menu scrolls to where one is.
  const here = document.querySelector(".menu [aria-current]");
  if (here) here.scrollIntoView({ block: "nearest", inline: "center" });
  for (const tab of document.querySelectorAll(".tabs > [aria-current]")) {
    const tabs = tab.parentElement;
    tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
  }

  // --- niceties ----------------------------------------------------------------------------------------
  document.addEventListener("click", (event) => {
    for (const drop of document.querySelectorAll("details[data-drop][open]")) {
      if (!drop.contains(event.target)) drop.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const drop of document.querySelectorAll("details[data-drop][open]")) {
      drop.open = false;
      drop.querySelector("summary").focus();
    }
  });
  // Filters apply when chosen; without script their button does it.
  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", (event) => { if (event.target.matches("select")) form.requestSubmit(); });
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    });
  }
  // Tab indents in the editor; Escape first lets it leave the field again.
  for (const editor of document.querySelectorAll("textarea[data-editor]")) {
    let free = false;
    editor.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { free = true; return; }
      if (event.key === "Tab" && !event.shiftKey && !free) {
        event.preventDefault();
        editor.setRangeText("  ", editor.selectionStart, editor.selectionEnd, "end");
      }
      free = false;
    });
  }
})();
