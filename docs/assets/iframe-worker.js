/* Browsers start no workers for pages that are opened as files. Search then runs in a hidden frame instead, which the
   theme's worker recognises by the name IFrameWorker. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      const script = Object.assign(document.createElement("script"), { src: url })
      const placed = new Promise(done => {
        this.frame.addEventListener("load", () => {
          const inside = this.frame.contentWindow
          inside.postMessage = data => this.receive(data)
          script.addEventListener("load", () => done(inside))
          inside.document.body.append(script)
        }, { once: true })
      })
      placed.then(inside => { this.inside = inside; this.waiting.splice(0).forEach(data => this.postMessage(data)) })
      document.body.append(this.frame)
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }))
      else this.waiting.push(data)
    }

    receive(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      this.onmessage?.(event)
    }

    terminate() { this.frame.remove() }
  }
  window.Worker = window.IFrameWorker
}
