// Dragging a box over a picture. A drag is not a click, and a touch that scrolls the page is neither.

const SHORTEST = 6; // pixels of the screen

/**
 * Boxes are [left, top, right, bottom] in pixels of a picture of this size, cut at its edges: `moving(box or null)` is
 * called while one is drawn, and `done(box)` in the end.
 */
export function onDrag(canvas, [wide, high], { moving, done }) {
  let from = null;
  let dragged = false;
  const at = (event) => {
    const frame = canvas.getBoundingClientRect();
    const part = (value, size) => Math.min(1, Math.max(0, value / size));
    return [part(event.clientX - frame.left, frame.width) * wide, part(event.clientY - frame.top, frame.height) * high];
  };
  const boxTo = (event) => {
    const [[a, b], [c, d]] = [from.place, at(event)];
    return [Math.min(a, c), Math.min(b, d), Math.max(a, c), Math.max(b, d)];
  };
  const stop = () => {
    from = null;
    moving(null);
  };
  canvas.addEventListener("pointerdown", (event) => {
    dragged = false;
    if (!event.button) from = { place: at(event), x: event.clientX, y: event.clientY };
  });
  canvas.addEventListener(
    "pointermove",
    (event) => {
      if (!from) return;
      if (!dragged && Math.hypot(event.clientX - from.x, event.clientY - from.y) < SHORTEST) return;
      if (!dragged) canvas.dispatchEvent(new PointerEvent("pointerleave")); // nothing is pointed at while a box is drawn
      dragged = true;
      canvas.setPointerCapture(event.pointerId);
      event.stopImmediatePropagation();
      moving(boxTo(event));
    },
    { capture: true },
  );
  canvas.addEventListener("pointerup", (event) => {
    if (from && dragged) done(boxTo(event));
    stop();
  });
  canvas.addEventListener("pointercancel", () => {
    dragged = false;
    stop();
  });
  canvas.addEventListener("click", (event) => dragged && event.stopImmediatePropagation(), { capture: true });
}
