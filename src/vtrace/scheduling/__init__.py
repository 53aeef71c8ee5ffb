"""One scheduler for local processes, Ray and the simulation. It knows nothing of models."""
