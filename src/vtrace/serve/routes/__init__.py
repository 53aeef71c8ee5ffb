"""HTTP only: requests are passed to the service, and its results become responses."""
