// The start page: pictures, a question, a model and methods.

import { get, post, server } from "./api.js";
import { make, notice } from "./dom.js";
import { cards } from "./history.js";

// Kept while the tab is open, so that the next question can be about the same pictures.
const draft = { files: [], example: "", question: "", model: "", methods: null, target: "response" };

export async function ask() {
  const [facts, recent] = await Promise.all([server(), get("/api/explanations?count=6")]);
  draft.methods ??= [facts.methods[0].name];
  draft.model ||= facts.models[0];
  const problem = make("div", { "aria-live": "polite" });
  const gallery = make("div", { class: "gallery" });
  const question = make("textarea", {
    id: "question", name: "question", rows: 2, maxlength: facts.limits.question, required: true, value: draft.question,
    placeholder: "What would you like to know?",
    oninput: () => { draft.question = question.value; },
    onkeydown: (event) => {
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); form.requestSubmit(); }
    },
  });
  const input = make("input", {
    type: "file", id: "files", accept: "image/png,image/jpeg,image/webp,image/gif", multiple: true, class: "hidden-input",
    onchange: () => { add([...input.files]); input.value = ""; },
  });
  const drop = make("label", { class: "drop", for: "files" },
    make("span", { class: "drop-title" }, "Drop a picture here"),
    make("span", { class: "faint" }, "or click to choose one, or paste it"));
  const examples = make("div", { class: "examples", role: "group", "aria-label": "Embedded examples" }, facts.examples.map((example) =>
    make("button", {
      type: "button", title: example.question, "aria-label": `Example: ${example.question}`, "data-key": example.key,
      onclick: () => { draft.files = []; draft.example = example.key; question.value = draft.question = example.question; refresh(); },
    }, make("img", { src: `/api/examples/${example.key}/picture`, alt: "", width: 64, height: 64 }))));
  const button = make("button", { class: "primary", type: "submit" }, "Explain");
  const form = make("form", { class: "ask", onsubmit: submit },
    make("div", { class: "pictures" }, input, gallery, drop,
      make("p", { class: "faint label" }, "Or try an example"), examples),
    make("div", { class: "fields" },
      make("label", { for: "question", class: "label" }, "Question"), question,
      modelField(facts), targetField(facts), methodsField(facts), problem,
      make("div", { class: "actions" }, button,
        make("span", { class: "faint" }, "Pictures and answers stay on this server."))));

  function add(files) {
    const pictures = files.filter((file) => file.type.startsWith("image/"));
    if (pictures.length < files.length) say("Only PNG, JPEG, WebP and GIF pictures can be used.");
    if (!pictures.length) return;
    draft.files = [...draft.files, ...pictures].slice(0, facts.limits.pictures);
    draft.example = "";
    refresh();
    question.focus();
  }

  function refresh() {
    problem.replaceChildren();
    for (const image of gallery.querySelectorAll("img")) if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
    const previews = draft.example
      ? [preview(`/api/examples/${draft.example}/picture`, "example picture", () => { draft.example = ""; })]
      : draft.files.map((file, index) => preview(URL.createObjectURL(file), file.name, () => { draft.files.splice(index, 1); }));
    gallery.replaceChildren(...previews);
    gallery.classList.toggle("several", previews.length > 1);
    form.classList.toggle("filled", previews.length > 0);
    drop.firstChild.textContent = previews.length ? "Add another picture" : "Drop a picture here";
    for (const example of examples.children) example.setAttribute("aria-pressed", example.dataset.key === draft.example);
  }

  function preview(source, name, forget) {
    return make("figure", {}, make("img", { src: source, alt: name }),
      make("button", { type: "button", class: "remove", "aria-label": `Remove ${name}`, onclick: () => { forget(); refresh(); } }, "×"));
  }

  function say(text) {
    problem.replaceChildren(notice(text, "bad"));
  }

  async function submit(event) {
    event.preventDefault();
    const size = draft.files.reduce((sum, file) => sum + file.size, 0);
    if (!draft.files.length && !draft.example) return say("Add a picture first: drop one, or pick an example.");
    if (!question.value.trim()) return say("Type a question about the picture.");
    if (size > facts.limits.upload_bytes) return say(`The pictures are ${mega(size)} MB in total; the limit is ${mega(facts.limits.upload_bytes)} MB.`);
    const body = new FormData();
    for (const file of draft.files) body.append("pictures", file);
    if (draft.example) body.append("example", draft.example);
    body.append("question", question.value);
    body.append("model", draft.model);
    body.append("target", draft.target);
    for (const method of draft.methods) body.append("methods", method);
    button.disabled = true;
    try {
      const made = await post("/api/explanations", body);
      location.hash = `#/explanations/${made.id}`;
    } catch (trouble) {
      say(trouble.message);
    } finally {
      button.disabled = false;
    }
  }

  const dragging = (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragging", event.type === "dragover");
    if (event.type === "drop") add([...event.dataTransfer.files]);
  };
  const pasting = (event) => { if (event.clipboardData.files.length) add([...event.clipboardData.files]); };
  const kinds = ["dragover", "dragleave", "drop"];
  for (const kind of kinds) document.addEventListener(kind, dragging);
  document.addEventListener("paste", pasting);

  const intro = make("section", { class: "intro" },
    make("h1", {}, "What did the model base its answer on?"),
    make("p", { class: "faint" }, "Add a picture and ask a question. The model answers once, and VTrace shows which patches and words the answer relies on. Then hide them and ask again: does the answer change?"));
  const before = recent.length ? make("section", {}, make("h2", {}, "Recent"), cards(recent)) : null;
  refresh();
  return {
    nodes: [intro, form, before],
    leave() {
      for (const kind of kinds) document.removeEventListener(kind, dragging);
      document.removeEventListener("paste", pasting);
    },
  };
}

function mega(bytes) {
  return (bytes / 1e6).toFixed(0);
}

function modelField(facts) {
  if (facts.models.length === 1) return make("p", { class: "line" }, make("span", { class: "label" }, "Model"), facts.models[0]);
  const select = make("select", { id: "model", onchange: () => { draft.model = select.value; } },
    facts.models.map((name) => make("option", { value: name, selected: name === draft.model }, name)));
  return make("p", { class: "line" }, make("label", { for: "model", class: "label" }, "Model"), select);
}

function targetField(facts) {
  const words = { response: "the whole response", answer: "the final answer" };
  const select = make("select", { id: "target", onchange: () => { draft.target = select.value; } },
    facts.targets.map((name) => make("option", { value: name, selected: name === draft.target }, words[name] ?? name)));
  return make("p", { class: "line" }, make("label", { for: "target", class: "label" }, "Explain"), select);
}

function methodsField(facts) {
  const summary = make("span", { class: "chosen" });
  const boxes = facts.methods.map((method) => make("input", {
    type: "checkbox", value: method.name, id: `method-${method.name}`, onchange: count,
  }));
  for (const box of boxes) box.checked = draft.methods.includes(box.value);

  function count(event) {
    const chosen = boxes.filter((box) => box.checked);
    if (chosen.length === 0 || chosen.length > facts.limits.methods) event.target.checked = !event.target.checked;
    draft.methods = boxes.filter((box) => box.checked).map((box) => box.value);
    summary.textContent = draft.methods.join(", ");
  }

  summary.textContent = draft.methods.join(", ");
  return make("details", { class: "methods" },
    make("summary", {}, make("span", { class: "label" }, "Method"), summary),
    make("ul", {}, facts.methods.map((method, index) => make("li", {},
      boxes[index], make("label", { for: `method-${method.name}` },
        make("b", {}, method.name), " ", make("span", { class: "faint" }, `${method.about} · passes: ${method.cost}`))))));
}
