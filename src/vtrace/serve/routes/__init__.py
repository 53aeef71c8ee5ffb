"""HTTP only: what comes in is handed to the service, and what it says becomes an answer."""
