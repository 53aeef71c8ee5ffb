"""The local web application: ask, watch the answer, open it in the viewer. One model, one queue, one history."""
