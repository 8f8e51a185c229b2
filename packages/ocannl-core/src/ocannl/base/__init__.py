"""What every other layer stands on: errors, settings, facts that settle once."""
