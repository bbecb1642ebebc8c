"""Skills of several goals in a row: look, pick, place, hand over; each step measured before the next."""
