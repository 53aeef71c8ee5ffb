"""What else is known of an attribution: its verification, a contrast of two answers, named regions."""
