(function () {
  // The reader's language first; the switch works without this script.
  var wanted = location.hash === "#zh" || location.hash === "#en" ? location.hash.slice(1) : (navigator.language || "").slice(0, 2);
  var box = document.getElementById("show-" + wanted);
  if (box) { box.checked = true; }
  function named() {
    var zh = document.getElementById("show-zh").checked;
    document.documentElement.lang = zh ? "zh" : "en";
    document.title = document.querySelector(zh ? ".l-zh h1" : ".l-en h1").textContent;
  }
  document.addEventListener("change", named);
  named();
})();
