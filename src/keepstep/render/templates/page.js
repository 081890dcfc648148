
"use strict";
for (const box of document.querySelectorAll(".command")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    const text = box.querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(box.querySelector("pre"));
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  box.append(button);
}

const folds = [...document.querySelectorAll("#evidence details")];
const open = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", open);
open();
if (folds.length > 1) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "unfold";
  button.textContent = "unfold all";
  button.addEventListener("click", () => {
    const all = folds.every((fold) => fold.open);
    for (const fold of folds) fold.open = !all;
    button.textContent = all ? "unfold all" : "fold all";
  });
  document.querySelector("#evidence h2").append(button);
}
addEventListener("beforeprint", () => { for (const fold of folds) fold.open = true; });
