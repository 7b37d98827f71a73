"""What leaves the house: exported models, asked and checked from outside."""
