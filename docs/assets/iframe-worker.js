// Search runs in a Web Worker, which browsers refuse to pages that were opened as files. This one is a hidden frame.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      const base = new URL(url, document.baseURI);
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...urls) =>
        urls.reduce(
          (before, each) =>
            before.then(
              () =>
                new inside.Promise((done, failed) => {
                  const script = inside.document.createElement("script");
                  script.src = new URL(each, base).href;
                  script.onload = done;
                  script.onerror = failed;
                  inside.document.body.appendChild(script);
                }),
            ),
          inside.Promise.resolve(),
        );
      this.ready = inside.importScripts(base.href);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
