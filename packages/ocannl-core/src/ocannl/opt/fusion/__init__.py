"""Loop and producer-consumer fusion."""
